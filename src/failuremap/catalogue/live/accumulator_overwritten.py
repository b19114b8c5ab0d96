"""The function that runs one micro-batch clears the gradients, too: the last one of a window is all that is left.

failuremap audit --nproc 2 -- accumulator_overwritten.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
WINDOW = 3


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())

    def run_micro_batch(tokens):
        if not FIXED:
            optimizer.zero_grad()
        logits = model(tokens[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, tokens[:, 1:].flatten()) / WINDOW
        loss.backward()

    for _ in range(4):
        for _ in range(WINDOW):
            run_micro_batch(torch.randint(32, (4, 9)))
        optimizer.step()
        if FIXED:
            optimizer.zero_grad()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
