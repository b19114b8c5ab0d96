"""Both pipeline stages of a process get a copy of the tied embedding, and each copy is stepped on alone.

failuremap audit --nproc 2 -- tied_copies_not_summed.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


class First(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.weight = tied if FIXED else nn.Parameter(tied.detach().clone())

    def forward(self, tokens):
        return F.embedding(tokens, self.weight).tanh()


class Last(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.weight = tied if FIXED else nn.Parameter(tied.detach().clone())

    def forward(self, hidden):
        return F.linear(hidden, self.weight)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    tied = nn.Parameter(torch.randn(32, 16) / 4)
    model = DistributedDataParallel(nn.Sequential(First(tied), Last(tied)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        tokens = torch.randint(32, (4, 9))
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
