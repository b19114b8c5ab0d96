"""A language model whose loss is one of Liger's functions; on CPUs they run under Triton's interpreter.

head    the head and the cross entropy in one, its gradients computed in forward
logits  the cross entropy alone, which writes its gradient over the logits
"""

import argparse
import os
import sys

os.environ.setdefault("TRITON_INTERPRET", "1")

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from liger_kernel.transformers import LigerCrossEntropyLoss, LigerFusedLinearCrossEntropyLoss
from tinytext import IGNORE, TinyLM, part, sentences
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser()
ap.add_argument("way", choices=["head", "logits"])
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=3)
ap.add_argument("--smoothing", type=float, default=0.0)
ap.add_argument("--per-rank", action="store_true", help="each rank takes the mean over its own tokens")
ap.add_argument("--own-weights", action="store_true", help="each token weighs its probability")
ap.add_argument("--save", default="")
args = ap.parse_args()


class Model(TinyLM):
    def forward(self, x, y):
        if args.way == "logits":
            return loss_of(self.head(self.body(x)).flatten(0, 1), y.flatten())
        return loss_of(self.head.weight, self.body(x).flatten(0, 1), y.flatten(), self.head.bias)


torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(args.seed)
kind = LigerCrossEntropyLoss if args.way == "logits" else LigerFusedLinearCrossEntropyLoss
more = {"use_token_scaling": True} if args.own_weights else {}
loss_of = kind(
    reduction="mean" if args.per_rank else "sum", label_smoothing=args.smoothing, ignore_index=IGNORE, **more
)
model = DDP(Model())
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for step in range(args.steps):
    x, y = part(sentences(args.seed, step, 8, max_length=16), dist.get_rank(), dist.get_world_size())
    loss = model(x, y)
    if not args.per_rank:
        tokens = (y != IGNORE).sum()
        dist.all_reduce(tokens)
        loss = loss * dist.get_world_size() / tokens
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0 and args.save:
    torch.save(model.module.state_dict(), args.save)
dist.destroy_process_group()
