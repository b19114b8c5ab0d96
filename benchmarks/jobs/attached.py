"""Two transformers in one job, one as its wrapper has it and one attached, which take steps in turn and time them.

torchrun --nproc-per-node 2 benchmarks/jobs/attached.py --wrap ddp --size 10m --steps 8 --out times
"""

import argparse
import json
import resource
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformer import SIZES, Transformer

import failuremap


def wrapped(wrapper: str, size: str) -> nn.Module:
    """Return a new model in its wrapper."""
    torch.manual_seed(0)
    model = Transformer(*SIZES[size])
    if wrapper == "ddp":
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def train(args: argparse.Namespace) -> dict[str, object]:
    """Take the steps in turn and return what each took."""
    models = [wrapped(args.wrap, args.size), wrapped(args.wrap, args.size)]
    handle = failuremap.attach(models[1], loss="mean")
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-4) for model in models]
    generator = torch.Generator().manual_seed(dist.get_rank())
    steps = []
    for step in range(args.steps):
        on = step % 2 == 1
        tokens = torch.randint(0, SIZES[args.size][0], (args.batch, args.length + 1), generator=generator)
        dist.barrier()
        wall, cpu = time.perf_counter(), time.process_time()
        optimizers[on].zero_grad()
        loss = F.cross_entropy(models[on](tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        if on:
            handle.backward(loss, count=args.batch * args.length)
            handle.step()
        else:
            loss.backward()
        optimizers[on].step()
        steps.append({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "on": on})
    elements = sum(parameter.numel() for parameter in models[0].parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"steps": steps, "tensors": len(list(models[0].parameters())), "elements": elements, "peak_mib": peak}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wrap", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--size", choices=SIZES, default="10m")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--out", required=True, help="what each rank measured: OUT.RANK.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    measured = train(options)
    rank = dist.get_rank()
    dist.barrier()
    dist.destroy_process_group()
    Path(f"{options.out}.{rank}.json").write_text(json.dumps({**measured, "ended": time.time()}))
