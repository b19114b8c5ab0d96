"""DDP averages the ranks' mean losses; the ranks hold different numbers of tokens.

failuremap audit --nproc 2 -- replica_means_ignore_counts.py
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
    rank, world_size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        tokens = torch.randint(32, (4, 6 + 5 * rank))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        logits = model(inputs).flatten(0, 1)
        if FIXED:
            token_count = torch.tensor(float(targets.numel()))
            dist.all_reduce(token_count)
            loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") * world_size / token_count
        else:
            loss = F.cross_entropy(logits, targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
