"""Language model whose parameters are sharded with `fully_shard`; a loss per token of the whole global batch."""

import argparse

import torch
import torch.distributed as dist
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

POLICIES = {
    "none": MixedPrecisionPolicy(),
    "bf16": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
    "bf16-reduce": MixedPrecisionPolicy(param_dtype=torch.bfloat16),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--lengths", default="varied")
    parser.add_argument("--replicas", type=int, default=1, help="with more than one: HSDP")
    parser.add_argument("--precision", default="none", choices=list(POLICIES))
    parser.add_argument("--sync", default="last", choices=["last", "every", "never"])
    parser.add_argument("--opt", default="sgd", choices=["sgd", "adamw"])
    parser.add_argument("--clip", default="none", choices=["none", "norm", "hand", "shard", "value"])
    parser.add_argument("--max-norm", type=float, default=0.3)
    parser.add_argument("--fault", default="")
    parser.add_argument("--save", default="")
    for switch in "--keep --tied --checkpointing --offload --root-only --late --columns".split():
        parser.add_argument(switch, action="store_true")
    return parser.parse_args()


def whole(parameter):
    """A parameter with the shards of all ranks."""
    found = parameter.detach()
    return found.full_tensor() if hasattr(found, "full_tensor") else found


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(args.seed)
        self.model = TinyLM(tied=args.tied, checkpointing=args.checkpointing)
        self.shard()
        self.params = list(self.model.parameters())
        if not args.late:
            self.optimizer = self.make_optimizer()

    def make_optimizer(self):
        if self.args.opt == "adamw":
            return torch.optim.AdamW(self.params, lr=self.args.lr / 100)
        return torch.optim.SGD(self.params, lr=self.args.lr)

    def shard(self):
        args = self.args
        replicas = args.replicas if self.world % args.replicas == 0 else 1
        mesh = init_device_mesh("cpu", (replicas, self.world // replicas), mesh_dim_names=("replicate", "shard"))
        how = {
            "mesh": mesh if replicas > 1 else mesh["shard"],
            "mp_policy": POLICIES[args.precision],
            "reshard_after_forward": not args.keep,
        }
        if args.offload:
            how["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
        if args.columns:
            how["shard_placement_fn"] = lambda p: torch.distributed.tensor.Shard(p.dim() - 1)
        outside = {self.model.head.weight} if args.fault == "ignored" else set()
        if not args.root_only:
            for block in self.model.body.blocks:
                fully_shard(block, **how)
        fully_shard(self.model, ignored_params=outside, **how)
        factors = {"summed": (1.0, 1.0), "root-factor": (1.0, None), "root-third": (3.0, None)}.get(args.fault)
        if factors is not None:
            for module, factor in (
                (self.model, factors[0]),
                *((block, factors[1]) for block in self.model.body.blocks),
            ):
                module.set_force_sum_reduction_for_comms(True)  # Gloo scales nothing on the way
                if factor is not None:
                    module.set_gradient_divide_factor(factor)

    def window(self, step):
        """The micro-batches of this rank, and the tokens that all ranks have in theirs."""
        accum = self.args.accum
        batch = sentences(self.args.seed, step, self.args.batch, self.args.lengths)
        parts = [part(batch, self.rank * accum + m, self.world * accum) for m in range(accum)]
        tokens = torch.tensor(float(sum((targets != IGNORE).sum() for _, targets in parts)))
        dist.all_reduce(tokens)
        return parts, tokens

    def loss(self, logits, targets, tokens):
        logits, targets = logits.float().reshape(-1, VOCAB), targets.reshape(-1)
        if self.args.fault == "counts":
            return nn.CrossEntropyLoss()(logits, targets) / self.args.accum
        factor = 1 if self.args.fault == "averaged-again" else self.world
        return nn.CrossEntropyLoss(reduction="sum")(logits, targets) * factor / tokens

    def micro_step(self, m, micro, tokens):
        args = self.args
        if args.fault == "zero-inside" or (args.fault == "micro-dropped" and m == 1):
            self.optimizer.zero_grad()
        last = m == args.accum - 1
        self.model.set_requires_gradient_sync({"last": last, "every": True, "never": False}[args.sync])
        inputs, targets = micro
        self.loss(self.model(inputs), targets, tokens).backward()

    def clip(self):
        args = self.args
        if args.clip == "norm":
            nn.utils.clip_grad_norm_(self.params, args.max_norm)
        elif args.clip == "value":
            nn.utils.clip_grad_value_(self.params, 0.01)
        elif args.clip != "none":
            mine = [p.grad.to_local() for p in self.params]
            square = sum(g.double().square().sum() for g in mine)
            if args.clip == "hand":
                dist.all_reduce(square)
            for g in mine:
                g.mul_(min(1.0, args.max_norm / float(square.sqrt())))

    def train(self, steps):
        for step in range(steps):
            parts, tokens = self.window(step)
            if self.args.late and step == 0:
                self.model(parts[0][0])
                self.optimizer = self.make_optimizer()
            if self.args.fault != "no-zero":
                self.optimizer.zero_grad()
            for m, micro in enumerate(parts):
                self.micro_step(m, micro, tokens)
            self.clip()
            if self.args.fault == "misaligned" and self.rank > 0:
                for p in self.params:
                    p.grad.to_local().copy_(p.grad.to_local().roll(1, 0))
            self.optimizer.step()

    def weights(self):
        return {name: whole(p) for name, p in self.model.named_parameters()}


def train(args):
    trainer = Trainer(args)
    trainer.train(args.steps)
    weights = trainer.weights() if args.save else {}
    if trainer.rank == 0:
        print("done")
        if args.save:
            torch.save(weights, args.save)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(arguments())
    dist.destroy_process_group()
