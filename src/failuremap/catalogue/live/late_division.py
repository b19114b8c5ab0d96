"""The summed loss goes backward; the token count divides it for the log alone.

failuremap audit --nproc 2 -- late_division.py
"""

import contextlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    torch.manual_seed(1 + rank)
    for step in range(4):
        window = [torch.randint(32, (4, 5 + 2 * rank + 3 * m)) for m in range(2)]
        token_count = torch.tensor(float(sum(tokens[:, 1:].numel() for tokens in window)))
        dist.all_reduce(token_count)
        optimizer.zero_grad()
        loss_sum = torch.zeros(())
        for micro_batch, tokens in enumerate(window):
            last = micro_batch == len(window) - 1
            with contextlib.nullcontext() if last else model.no_sync():
                logits, targets = model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
                loss = F.cross_entropy(logits, targets, reduction="sum")
                (loss * world_size / token_count if FIXED else loss).backward()
            loss_sum += loss.detach()
        optimizer.step()
        dist.all_reduce(loss_sum)
        if rank == 0:
            print(f"step {step}: loss {float(loss_sum / token_count):.4f}")


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
