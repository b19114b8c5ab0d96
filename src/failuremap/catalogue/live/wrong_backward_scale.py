"""A layer averages its input over the ranks; its backward sums the gradients and leaves the average's factor out.

failuremap audit --nproc 2 -- wrong_backward_scale.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


class AverageOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, features):
        average = features.clone()
        dist.all_reduce(average)
        return average / dist.get_world_size()

    @staticmethod
    def backward(_ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient / dist.get_world_size() if FIXED else gradient


class Centred(nn.Module):
    """Takes the mean of the whole batch, over all ranks, off the features."""

    def forward(self, features):
        return features - AverageOverRanks.apply(features.mean(0))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), Centred(), nn.Linear(16, 10))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(4):
        images, labels = torch.randn(8, 12), torch.randint(10, (8,))
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
