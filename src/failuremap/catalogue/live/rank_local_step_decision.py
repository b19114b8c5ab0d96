"""The learning rate falls with each rank's own progress through its data; the ranks' shares are not equally long.

failuremap audit --nproc 2 -- rank_local_step_decision.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    batch_count = 8 + 4 * rank
    for step in range(4):
        tokens = torch.randint(32, (4, 9))
        logits = model(tokens[:, :-1]).flatten(0, 1)
        F.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
        progress = torch.tensor(step / batch_count)
        if FIXED:
            dist.all_reduce(progress, op=dist.ReduceOp.MAX)
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - progress.item())
        optimizer.step()
        optimizer.zero_grad()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
