"""Language model, data parallel by hand: every rank reads its rows, gradients are summed with all_reduce."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.2)
parser.add_argument("--dtype", default="float32")
parser.add_argument("--lengths", default="varied")
parser.add_argument("--reduce", default="each", choices=["each", "flat", "async"])
parser.add_argument("--form", default="sum", choices=["sum", "mean", "weighted"])
parser.add_argument("--loss", default="ce", choices=["ce", "masked"])
parser.add_argument("--init", default="seed", choices=["seed", "broadcast"])
parser.add_argument("--clip", default="none", choices=["none", "norm", "value", "hand"])
parser.add_argument("--max-norm", type=float, default=0.5)
parser.add_argument("--fault", default="")
parser.add_argument("--save", default="")
args = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()


def build_model():
    own_seed = args.init == "broadcast" or args.fault == "no-broadcast"
    torch.manual_seed(args.seed + (rank if own_seed else 0))
    model = TinyLM().to(getattr(torch, args.dtype))
    if args.init == "broadcast":
        for p in model.parameters():
            dist.broadcast(p.data, src=0)
    return model


def window(step):
    """The micro-batches of this rank, its tokens and everybody's."""
    batch = sentences(args.seed, step, args.batch, args.lengths)
    reader = 0 if args.fault == "same-data" else rank
    parts = [part(batch, reader * args.accum + m, world * args.accum) for m in range(args.accum)]
    mine = sum((targets != IGNORE).sum() for _, targets in parts).float()
    everyone = mine.clone()
    dist.all_reduce(everyone)
    return parts, mine, everyone


def loss_of(logits, targets, mine, everyone):
    logits, targets = logits.float().view(-1, VOCAB), targets.reshape(-1)
    if args.loss == "masked":
        mask = (targets != IGNORE).float()
        each = F.cross_entropy(logits, targets.clamp(min=0), reduction="none")
        return (each * mask).sum() / mask.sum() / args.accum
    if args.fault in ("counts", "replicas-summed"):
        return F.cross_entropy(logits, targets, ignore_index=IGNORE) / args.accum
    total = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
    if args.form == "weighted":
        return total / mine
    loss = total / everyone
    return loss * world if args.form == "mean" or args.fault == "times-world" else loss


def all_reduce(grads):
    if args.reduce == "flat":
        flat = torch.cat([g.reshape(-1) for g in grads])
        dist.all_reduce(flat)
        for g, part_of_flat in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
            g.copy_(part_of_flat.view_as(g))
    elif args.reduce == "async":
        for work in [dist.all_reduce(g, async_op=True) for g in grads]:
            work.wait()
    else:
        for g in grads:
            dist.all_reduce(g)


def synchronise(model, mine, everyone):
    grads = [p.grad for p in model.parameters()]
    if args.fault == "never-sync":
        return
    if args.fault == "broadcast-first":
        for g in grads:
            dist.broadcast(g, src=0)
        return
    if args.fault == "drop-rank" and rank == world - 1:
        for g in grads:
            g.zero_()
    if args.fault == "skip-bias":
        grads = grads[:-1]
    if args.fault == "skip-embedding":
        grads = grads[1:]
    if args.form == "weighted":
        for g in grads:
            g.mul_(mine / everyone)
    all_reduce(grads)
    average = args.form == "mean" or args.fault in ("counts", "averaged-again") or args.loss == "masked"
    for g in grads if average and args.fault != "replicas-summed" else ():
        g.div_(world)
    if args.fault == "world-twice":
        for g in grads:
            g.div_(world)


def clip(model):
    params = list(model.parameters())
    if args.clip == "norm":
        torch.nn.utils.clip_grad_norm_(params, args.max_norm)
    elif args.clip == "value":
        torch.nn.utils.clip_grad_value_(params, 0.01)
    elif args.clip == "hand":
        norm = torch.stack([p.grad.norm() for p in params]).norm()
        for p in params:
            p.grad.mul_(torch.clamp(args.max_norm / (norm + 1e-6), max=1.0))


model = build_model()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
waiting = None
for step in range(args.steps):
    parts, mine, everyone = window(step)
    if args.fault != "no-zero":
        optimizer.zero_grad()
    for inputs, targets in parts:
        loss_of(model(inputs), targets, mine, everyone).backward()
        if args.fault == "reduce-every":
            all_reduce([p.grad for p in model.parameters()])
    if args.fault == "clip-before":
        clip(model)
    if args.fault != "reduce-every":
        synchronise(model, mine, everyone)
    if args.fault == "delayed":  # the sum is applied one step later, to hide its time
        fresh = [p.grad.clone() for p in model.parameters()]
        for p, g in zip(model.parameters(), waiting or fresh, strict=True):
            p.grad.copy_(g)
        waiting = fresh
    if args.fault != "clip-before":
        clip(model)
    optimizer.step()

if rank == 0:
    print(f"trained {args.steps} steps on {os.environ['WORLD_SIZE']} ranks")
    if args.save:
        torch.save(model.state_dict(), args.save)
dist.destroy_process_group()
