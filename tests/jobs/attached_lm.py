"""Language model whose gradients follow failuremap.attach: a mean loss a micro-batch, and its count of tokens."""

import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP

import failuremap

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.2)
parser.add_argument("--wrap", choices=["ddp", "fsdp"], default="ddp")
parser.add_argument("--exact", action="store_true")
parser.add_argument("--clip", type=float, default=0.0)
parser.add_argument("--reduce-each", action="store_true", help="without no_sync()")
parser.add_argument("--fault", default="", help="no-counts: every micro-batch says 1")
parser.add_argument("--save", default="")
args = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(args.seed)
plain = TinyLM()
if args.wrap == "fsdp":
    for block in plain.body.blocks:
        fully_shard(block)
model = DDP(plain) if args.wrap == "ddp" else fully_shard(plain)
handle = failuremap.attach(model, loss="mean", exact=args.exact)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for step in range(args.steps):
    batch = sentences(args.seed, step, args.batch, "varied")
    optimizer.zero_grad()
    for micro_batch in range(args.accum):
        tokens, targets = part(batch, rank * args.accum + micro_batch, world * args.accum)
        kept_back = args.wrap == "ddp" and micro_batch < args.accum - 1 and not args.reduce_each
        with model.no_sync() if kept_back else contextlib.nullcontext():
            loss = F.cross_entropy(model(tokens).reshape(-1, VOCAB), targets.reshape(-1), ignore_index=IGNORE)
            handle.backward(loss, count=1 if args.fault else (targets != IGNORE).sum())
    if handle.step():
        if args.clip:
            failuremap.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
state = model.state_dict()
if args.wrap == "fsdp":
    state = {name: value.full_tensor() for name, value in state.items()}
if rank == 0 and args.save:
    torch.save(state, args.save)
dist.destroy_process_group()
