"""A restart's micro-batch counter decides when to clear, the loop's own index when to step: the clear comes in between.

failuremap audit --nproc 2 -- microbatch_dropped.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
WINDOW, RUN_BEFORE_RESTART = 4, 6


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for index in range(4 * WINDOW):
        micro_batch = index if FIXED else RUN_BEFORE_RESTART + index
        if micro_batch % WINDOW == 0:
            optimizer.zero_grad()
        tokens = torch.randint(32, (4, 9))
        logits = model(tokens[:, :-1]).flatten(0, 1)
        (F.cross_entropy(logits, tokens[:, 1:].flatten()) / WINDOW).backward()
        if (index + 1) % WINDOW == 0:
            optimizer.step()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
