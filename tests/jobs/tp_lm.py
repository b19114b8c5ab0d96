"""A language model in tensor parallel, its norms on parts of the sequence; with four ranks `fully_shard` on top."""

import argparse
import contextlib

import torch
import torch.distributed as dist
from tinytext import IGNORE, VOCAB, part, sentences
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=32, layers=2):
        super().__init__()
        self.token = nn.Embedding(VOCAB, width)
        self.blocks = nn.ModuleList(Mlp(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        x = self.token(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def plan(args):
    """What is split, and how; `--sequence`: what lies between the split layers is split along the sequence."""
    between = Shard(1) if args.sequence else Replicate()
    found = {
        "head": ColwiseParallel(
            input_layouts=between,
            output_layouts=Shard(-1) if args.loss_parallel else Replicate(),
            use_local_output=not args.loss_parallel,
        )
    }
    if args.sequence:
        found["token"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    if args.sequence and args.norms == "plan":
        found["norm"] = SequenceParallel()
        found |= {f"blocks.{layer}.norm": SequenceParallel() for layer in range(2)}
    for layer in range(2):
        found[f"blocks.{layer}.up"] = ColwiseParallel(input_layouts=between)
        found[f"blocks.{layer}.down"] = RowwiseParallel(output_layouts=between)
    return found


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--norms", default="plan", choices=["plan", "summed", "averaged", "forgotten"])
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--fault", default="")
    parser.add_argument("--save", default="")
    for switch in ("--sequence", "--loss-parallel"):
        parser.add_argument(switch, action="store_true")
    return parser.parse_args()


def add_up_norms(model, args, group):
    """Where no plan splits the norms, each rank has the part of their gradient that its part of the sequence gives."""
    if args.norms not in ("summed", "averaged"):
        return
    for name, p in model.named_parameters():
        if "norm" in name:
            dist.all_reduce(p.grad, group=group)
            if args.norms == "averaged":
                p.grad /= dist.get_world_size(group)


def micro_batches(args, mesh, step):
    """The micro-batches of this replica, and the tokens that all replicas have in theirs."""
    replicas, replica = mesh["replica"].size(), mesh["replica"].get_local_rank()
    batch = sentences(args.seed, step, args.batch)
    if args.fault == "other-data":
        replica = dist.get_rank() // 2
    parts = [part(batch, replica * args.accum + m, replicas * args.accum) for m in range(args.accum)]
    if args.fault == "own-data":
        batch = sentences(args.seed + dist.get_rank(), step, args.batch)
        parts = [part(batch, m, args.accum) for m in range(args.accum)]
    tokens = torch.tensor(float(sum((targets != IGNORE).sum() for _, targets in parts)))
    dist.all_reduce(tokens, group=mesh["replica"].get_group())
    return parts, tokens


def loss_of(model, args, micro, tokens, replicas):
    logits, targets = model(micro[0]).flatten(0, 1), micro[1].flatten()
    if args.fault == "counts":
        return nn.functional.cross_entropy(logits, targets) / args.accum
    if args.loss_parallel:  # knows no sum
        return nn.functional.cross_entropy(logits, targets) * (targets != IGNORE).sum() * replicas / tokens
    return nn.functional.cross_entropy(logits, targets, reduction="sum") * replicas / tokens


def whole(parameter):
    """A parameter with the shards of all ranks."""
    found = parameter.detach()
    return found.full_tensor() if hasattr(found, "full_tensor") else found


def train(args):
    torch.manual_seed(args.seed)
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (max(1, world // 2), min(2, world)), mesh_dim_names=("replica", "tensor"))
    model = parallelize_module(Model(), mesh["tensor"], plan(args))
    replicas = mesh["replica"].size()
    if replicas > 1:
        for block in model.blocks:
            fully_shard(block, mesh=mesh["replica"])
        fully_shard(model, mesh=mesh["replica"])
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        parts, tokens = micro_batches(args, mesh, step)
        optimizer.zero_grad()
        for micro in parts:
            with loss_parallel() if args.loss_parallel else contextlib.nullcontext():
                loss_of(model, args, micro, tokens, replicas).backward()
        add_up_norms(model, args, mesh["tensor"].get_group())
        if args.clip:
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
    weights = {name: whole(p) for name, p in model.named_parameters()}
    if dist.get_rank() == 0:
        print("done")
        if args.save:
            torch.save(weights, args.save)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(arguments())
    dist.destroy_process_group()
