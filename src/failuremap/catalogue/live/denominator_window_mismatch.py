"""The window's token count is taken to be that of its first micro-batch, times the accumulation.

failuremap audit --nproc 2 -- denominator_window_mismatch.py
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


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        window = [torch.randint(32, (4, int(torch.randint(6, 24, ())))) for _ in range(ACCUMULATION)]
        if FIXED:
            token_count = torch.tensor(float(sum(tokens[:, 1:].numel() for tokens in window)))
        else:
            token_count = torch.tensor(float(window[0][:, 1:].numel() * ACCUMULATION))
        dist.all_reduce(token_count)
        optimizer.zero_grad()
        for micro_batch, tokens in enumerate(window):
            last = micro_batch == len(window) - 1
            with contextlib.nullcontext() if last else model.no_sync():
                logits, targets = model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
                loss = F.cross_entropy(logits, targets, reduction="sum") * world_size / token_count
                loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
