"""A step comes after every third micro-batch; what an epoch has left over waits, and joins the next epoch's first step.

failuremap audit --nproc 2 -- tail_window_dropped.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
WINDOW, BATCHES = 3, 7


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    epoch = torch.randint(32, (BATCHES, 4, 9))
    for _ in range(2):
        for index, tokens in enumerate(epoch):
            size = min(WINDOW, BATCHES - index // WINDOW * WINDOW) if FIXED else WINDOW
            logits = model(tokens[:, :-1]).flatten(0, 1)
            (F.cross_entropy(logits, tokens[:, 1:].flatten()) / size).backward()
            if (index + 1) % WINDOW == 0 or (FIXED and index + 1 == BATCHES):
                optimizer.step()
                optimizer.zero_grad()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
