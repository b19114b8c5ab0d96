"""A small language model under DeepSpeed ZeRO, on CPUs."""

import argparse
import json
import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("DS_BUILD_OPS", "0")

import deepspeed
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

WORDS = 80


class TinyLM(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, WORDS)

    def forward(self, words):
        return self.head(self.body(self.embed(words)))


def batch(g, rows=4, width=12):
    words = torch.randint(0, WORDS, (rows, width + 1), generator=g)
    targets = words[:, 1:].clone()
    for row in targets:
        row[int(torch.randint(2, width, (1,), generator=g)) :] = -100
    return words[:, :-1], targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--stage", type=int, default=1)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--save", help="where rank 0 leaves the weights")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--counts", default="all", choices=["all", "own", "batch"])
    parser.add_argument("--torch-style", action="store_true", help="loss.backward(), not engine.backward(loss)")
    parser.add_argument("--groups", action="store_true", help="biases and the rest as two groups of parameters")
    parser.add_argument("--zero", type=json.loads, default={}, help="further options of ZeRO")
    parser.add_argument("--config", type=json.loads, default={}, help="further options of DeepSpeed")
    args = parser.parse_args()
    torch.set_num_threads(1)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # no compiler is needed then
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    torch.manual_seed(args.seed)
    model = TinyLM()
    config = {
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": args.accum,
        "gradient_clipping": args.clip, "zero_optimization": {"stage": args.stage, **args.zero},
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": args.precision == "bf16"},
        "fp16": {"enabled": args.precision == "fp16", "initial_scale_power": 10},
        "steps_per_print": 10**9, "wall_clock_breakdown": False, **args.config,
    }  # fmt: skip
    biases = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    groups = [{"params": biases, "lr": 0.2}, {"params": matrices}] if args.groups else model.parameters()
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(groups, lr=0.1), config=config)
    g = torch.Generator().manual_seed(1000 * args.seed + dist.get_rank())
    for _ in range(args.steps):
        window = [batch(g) for _ in range(args.accum)]
        counts = [(targets != -100).sum().float() for _, targets in window]
        count = sum(counts)
        if args.counts == "all":
            dist.all_reduce(count)
            count = count / dist.get_world_size()
        for (words, targets), own in zip(window, counts):
            loss = F.cross_entropy(engine(words).float().view(-1, WORDS), targets.reshape(-1), reduction="sum")
            # the engine divides by the number of batches in a window
            loss = loss / own if args.counts == "batch" else loss / count * args.accum
            loss.backward() if args.torch_style else engine.backward(loss)
            engine.step()
    if args.save:
        with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=args.stage == 3):
            weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        if dist.get_rank() == 0:
            torch.save(weights, args.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
