"""A language model, its head tied, whose ranks add up their gradients with code of their own."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences
from torch.nn.utils import clip_grad_norm_

REDUCTIONS = "reduce-to-first pair bucket-lost tail-lost tied-twice crossed copy clip-some one-step".split()
OTHERS = "hook-on-one rewritten one-micro-twice padding-counted".split()

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--lr", type=float, default=0.2)
parser.add_argument("--divide", default="before", choices=["before", "after"], help="by all tokens, backward")
parser.add_argument("--fault", default="", choices=["", *REDUCTIONS, *OTHERS])
parser.add_argument("--dummy", default="", choices=["", "left-out", "counted"], help="the last rank's, from step 3 on")
parser.add_argument("--save", default="")
args = parser.parse_args()


def add_up_flat(tensors):
    """All-reduces many gradients in one message."""
    flat = torch.cat([p.grad.flatten() for p in tensors])
    dist.all_reduce(flat)
    for p, reduced in zip(tensors, flat.split([p.numel() for p in tensors]), strict=True):
        p.grad.copy_(reduced.view_as(p))


def add_up_whole_blocks(tensors, block=100):
    """The same, in blocks; what does not fill a block stays behind."""
    flat = torch.cat([p.grad.flatten() for p in tensors])
    head = flat[: flat.numel() // block * block].clone()
    dist.all_reduce(head)
    flat[: head.numel()] = head
    for p, reduced in zip(tensors, flat.split([p.numel() for p in tensors]), strict=True):
        p.grad.copy_(reduced.view_as(p))


def crossed(tensors):
    """The second rank has two tensors of one shape in another order."""
    ordered = list(tensors)
    if dist.get_rank() == 1:
        first, second = [i for i, p in enumerate(ordered) if p.shape == (32,)][:2]
        ordered[first], ordered[second] = ordered[second], ordered[first]
    return ordered


def add_up(model, step, pair):
    tensors, fault = list(model.parameters()), args.fault
    if fault == "bucket-lost":
        for start in range(0, len(tensors) - 4, 4):
            add_up_flat(tensors[start : start + 4])
    elif fault == "tail-lost":
        add_up_whole_blocks(tensors)
    elif fault == "reduce-to-first":
        for p in tensors:
            dist.reduce(p.grad, dst=0)
    elif fault == "pair":
        for p in tensors if dist.get_rank() < 2 else ():
            dist.all_reduce(p.grad, group=pair)
    elif fault == "copy":
        for p in tensors:
            dist.all_reduce(p.grad.clone())
    else:
        if fault == "tied-twice":
            tensors = [p for module in (model.body, model.head) for p in module.parameters()]
        if fault == "clip-some":
            clip_grad_norm_(tensors[:4], 0.01)
        if fault == "one-step" and step == 2 and dist.get_rank() == 1:
            model.zero_grad(set_to_none=False)
        for p in crossed(tensors) if fault == "crossed" else tensors:
            dist.all_reduce(p.grad)


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    pair = dist.new_group([0, 1]) if args.fault == "pair" else None
    torch.manual_seed(args.seed)
    model = TinyLM(tied=True)
    if args.fault == "hook-on-one" and rank == 1:
        for p in model.parameters():
            p.register_hook(lambda gradient: 3 * gradient)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        mine = part(sentences(args.seed, step, args.batch), rank, world)
        tokens = (mine[1] != IGNORE).sum().float() if args.fault != "padding-counted" else torch.tensor(mine[1].numel())
        is_dummy = args.dummy and step >= 3 and rank == world - 1
        if is_dummy and args.dummy == "left-out":
            tokens *= 0
        dist.all_reduce(tokens)
        optimizer.zero_grad()
        for micro in range(args.accum):
            x, y = part(mine, micro, args.accum)
            loss = F.cross_entropy(model(x).view(-1, VOCAB), y.view(-1), reduction="sum")
            if args.divide == "before":
                loss = loss / tokens
            if args.fault == "one-micro-twice" and (rank, micro) == (1, 0):
                loss = 2 * loss
            (loss * 0 if is_dummy else loss).backward()
        add_up(model, step, pair)
        if args.divide == "after":
            for p in model.parameters():
                p.grad /= tokens
        optimizer.step()
        if args.fault == "rewritten" and rank == 1:
            with torch.no_grad():
                model.body.position.weight *= 1.01
    if rank == 0 and args.save:
        torch.save(model.state_dict(), args.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
