"""Groups of two ranks that hold halves of the head, with a cross entropy over the whole vocabulary, as Megatron has it.

The rest of the model is the same on all ranks; a group reads one batch. Data-parallel gradients are added up by hand.
"""

import argparse

import torch
import torch.distributed as dist
from tinytext import IGNORE, VOCAB, Body, part, sentences
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--lr", type=float, default=0.2)
ap.add_argument("--per-rank", action="store_true", help="each group divides by its own number of tokens")
ap.add_argument("--alone", action="store_true", help="each rank has the whole head, and a group of its own")
args = ap.parse_args()


class CopyIn(torch.autograd.Function):
    """The same on all ranks of a group; their gradients are added up."""

    @staticmethod
    def forward(ctx, hidden, group):
        ctx.group = group
        return hidden.view_as(hidden)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class VocabularyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, targets, first, group):
        largest = scores.max(-1).values
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
        scores = scores - largest[:, None]
        elsewhere = (targets < first) | (targets >= first + scores.shape[1])
        here = (targets - first).masked_fill(elsewhere, 0)
        chosen = scores.gather(1, here[:, None])[:, 0].masked_fill(elsewhere, 0.0)
        dist.all_reduce(chosen, group=group)
        exponentials = scores.exp()
        total = exponentials.sum(-1)
        dist.all_reduce(total, group=group)
        ctx.save_for_backward(exponentials.div_(total[:, None]), elsewhere, here)
        return total.log() - chosen

    @staticmethod
    def backward(ctx, reached):
        softmax, elsewhere, here = ctx.saved_tensors
        softmax[torch.arange(len(here)), here] -= 1.0 - elsewhere.float()
        return softmax.mul_(reached[:, None]), None, None, None


torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
size = 1 if args.alone else 2
groups = [dist.new_group(list(range(first, first + size))) for first in range(0, world, size)]
beside = [dist.new_group(list(range(first, world, size))) for first in range(size)]
mine, place, copies = groups[rank // size], rank % size, beside[rank % size]
torch.manual_seed(args.seed)
body, head = Body(), nn.Linear(32, VOCAB, bias=False)
width = VOCAB // size
head.weight = nn.Parameter(head.weight.detach()[place * width : (place + 1) * width].clone())
parameters = [*body.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=args.lr)
for step in range(args.steps):
    x, y = part(sentences(args.seed, step, args.batch), rank // size, world // size)
    scores = head(CopyIn.apply(body(x), mine)).flatten(0, 1)
    losses = VocabularyCrossEntropy.apply(scores, y.flatten().clamp(min=0), place * width, mine)
    mask = (y.flatten() != IGNORE).float()
    tokens = mask.sum()
    if args.per_rank:
        tokens = tokens * (world // size)
    else:
        dist.all_reduce(tokens, group=copies)
    optimizer.zero_grad()
    ((losses * mask).sum() / tokens).backward()
    for p in parameters:
        dist.all_reduce(p.grad, group=copies)
    optimizer.step()
dist.destroy_process_group()
