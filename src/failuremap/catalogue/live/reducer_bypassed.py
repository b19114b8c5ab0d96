"""The model is wrapped in DDP, and the loop calls a method of the module inside.

failuremap audit --nproc 2 --unit example -- reducer_bypassed.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, inputs, targets):
        return self.compute_loss(inputs, targets)

    def compute_loss(self, inputs, targets):
        return F.cross_entropy(self.layers(inputs), targets)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = DistributedDataParallel(Classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        inputs, targets = torch.randn(8, 8), torch.randint(4, (8,))
        loss = model(inputs, targets) if FIXED else model.module.compute_loss(inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
