"""The loss is normalised by the tokens of the whole window, and then by the accumulation as well.

failuremap audit --nproc 2 -- divided_twice.py
"""

import contextlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
ACCUMULATION = 3


def backward(loss):
    """What a trainer does with the loss that it is given."""
    (loss if FIXED else loss / ACCUMULATION).backward()


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        window = [torch.randint(32, (4, 6 + 2 * rank + m)) for m in range(ACCUMULATION)]
        token_count = torch.tensor(float(sum(tokens[:, 1:].numel() for tokens in window)))
        dist.all_reduce(token_count)
        optimizer.zero_grad()
        for micro_batch, tokens in enumerate(window):
            last = micro_batch == len(window) - 1
            with contextlib.nullcontext() if last else model.no_sync():
                logits = model(tokens[:, :-1]).flatten(0, 1)
                loss = F.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="sum")
                backward(loss * world_size / token_count)
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
