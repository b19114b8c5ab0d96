"""A pipeline by hand: activations are sent on, and their gradients back; four micro-batches a step, replicas of stages.

Ranks stand as replicas by stages: with two replicas, ranks 0 and 1 run the one pipeline, 2 and 3 the other.
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

VOCAB, WIDTH, MICRO_BATCHES = 23, 16, 4

parser = argparse.ArgumentParser()
parser.add_argument("--stages", type=int, default=2)
parser.add_argument("--order", default="all-then-all", choices=["all-then-all", "one-by-one", "last-first"])
parser.add_argument("--loss", default="means", choices=["means", "exact"], help="exact: over the tokens of all")
parser.add_argument("--lengths", default="equal", choices=["equal", "uneven"])
parser.add_argument("--fault", default="", choices=["", "unscaled", "one-stage", "tied"])
parser.add_argument("--tied", action="store_true", help="the embedding is the head")
parser.add_argument("--arrival", default="as-sent", choices=["as-sent", "scaled"])
parser.add_argument("--sent", default="gradient", choices=["gradient", "twice"], help="what goes back to a stage")
parser.add_argument("--detach", action="store_true", help="what is sent carries no gradient")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--save", default="")
args = parser.parse_args()


class Stage(nn.Module):
    """A part of a token model; all stages call their layers alike."""

    def __init__(self, is_first, is_last):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH) if is_first or (is_last and args.tied) else None
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False) if is_last and not args.tied else None
        self.is_first, self.is_last = is_first, is_last

    def forward(self, x):
        x = self.embed(x) if self.is_first else x
        x = x + torch.tanh(self.layer(x))
        if not self.is_last:
            return x
        return self.head(x) if self.head else x @ self.embed.weight.T


def batch(step, replica):
    made = torch.Generator().manual_seed(100_000 * args.seed + 100 * step + replica)
    tokens = torch.randint(0, VOCAB, (8, 10), generator=made)
    labels = tokens.roll(-1, 1)
    if args.lengths == "uneven":
        lengths = torch.randint(2, 11, (8,), generator=made)
        labels[torch.arange(10) >= lengths[:, None]] = -100
    return tokens.chunk(MICRO_BATCHES), labels.chunk(MICRO_BATCHES)


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    replicas = world // args.stages
    replica, place = rank // args.stages, rank % args.stages
    over_replicas = [dist.new_group(list(range(stage, world, args.stages))) for stage in range(args.stages)][place]
    ends = [dist.new_group([first, first + args.stages - 1]) for first in range(0, world, args.stages)][replica]
    is_first, is_last = place == 0, place == args.stages - 1
    torch.manual_seed(1000 * args.seed + (0 if args.tied else place))
    model = Stage(is_first, is_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def forward(tokens, labels, total):
        x = tokens
        if not is_first:
            x = torch.empty(*tokens.shape, WIDTH)
            dist.recv(x, rank - 1)
            x.requires_grad_()
        out = model(x)
        if not is_last:
            dist.send(out.detach() if args.detach else out, rank + 1)
            return x, out
        loss = F.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction="sum")
        if args.loss == "exact":
            return x, loss * replicas / total
        units = (labels != -100).sum()
        return x, loss / units / (1 if args.fault == "unscaled" else MICRO_BATCHES)

    def backward(x, out):
        if is_last:
            out.backward()
        else:
            gradient = torch.empty_like(out)
            dist.recv(gradient, rank + 1)
            if args.arrival == "scaled":
                gradient = gradient * 0.5
            out.backward(gradient)
        if not is_first:
            dist.send(x.grad * 2 if args.sent == "twice" else x.grad, rank - 1)

    for step in range(args.steps):
        tokens, labels = batch(step, replica)
        total = torch.stack([(chunk != -100).sum() for chunk in labels]).sum()
        dist.all_reduce(total)
        total = total / args.stages
        optimizer.zero_grad()
        waiting = []
        for one in zip(tokens, labels, strict=True):
            waiting.append(forward(*one, total))
            if args.order == "one-by-one":
                backward(*waiting.pop())
        for one in reversed(waiting) if args.order == "last-first" else waiting:
            backward(*one)
        if args.tied and args.fault != "tied" and (is_first or is_last):
            dist.all_reduce(model.embed.weight.grad, group=ends)
        for parameter in model.parameters():
            if replicas > 1 and not (args.fault == "one-stage" and is_first):
                dist.all_reduce(parameter.grad, group=over_replicas)
                parameter.grad /= replicas
        optimizer.step()
    if args.save:
        mine = {f"rank {rank} {name}": p.detach() for name, p in model.named_parameters()}
        found = [None] * world if rank == 0 else None
        dist.gather_object(mine, found)
        if found:
            torch.save({name: p for weights in found for name, p in weights.items()}, args.save)


main()
dist.destroy_process_group()
