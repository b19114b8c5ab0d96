"""A language model under DDP, and a script that reaches into what DDP does: hooks, factors, second passes."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--lr", type=float, default=0.2)
ap.add_argument("--hook", default="none", choices=["none", "mean", "sum"])
ap.add_argument("--fault", default="", choices=["", "factor-by-rank", "inverted", "backward-again", "own-factor"])
ap.add_argument("--save", default="")
args = ap.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()


def reduce_bucket(divisor, bucket):
    """All-reduces a bucket, as communication hooks do."""
    future = dist.all_reduce(bucket.buffer() / divisor, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


def loss_of(model, x, y):
    tokens = (y != IGNORE).sum().float()
    everybody = tokens.clone()
    dist.all_reduce(everybody)
    loss = F.cross_entropy(model(x).view(-1, VOCAB), y.view(-1), reduction="sum")
    if args.fault == "inverted":  # n_r / N upside down
        return loss * everybody / tokens.square() / world
    return loss * world / everybody


torch.manual_seed(args.seed)
net = TinyLM()
ddp = DDP(net)
if args.hook != "none":
    ddp.register_comm_hook(world if args.hook == "mean" else 1, reduce_bucket)
optimizer = torch.optim.SGD(ddp.parameters(), lr=args.lr)
for step in range(args.steps):
    x, y = part(sentences(args.seed, step, args.batch), rank, world)
    optimizer.zero_grad()
    loss = loss_of(ddp, x, y)
    if args.fault == "own-factor" and rank == 0:
        loss = 2 * loss
    loss.backward(retain_graph=args.fault == "backward-again")
    if args.fault == "backward-again":
        loss.backward()
    if args.fault == "factor-by-rank":
        for p in ddp.parameters():
            p.grad *= 1 + 0.1 * rank
    optimizer.step()
if rank == 0 and args.save:
    torch.save(net.state_dict(), args.save)
dist.destroy_process_group()
