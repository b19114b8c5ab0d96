"""A contrastive loss gathers the features of all ranks, but its gradient reaches the rank's own features alone.

failuremap audit --nproc 2 --unit example -- gathered_part_detached.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def gather(features):
    """The features of all ranks, one after another, without a gradient."""
    parts = [torch.empty_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features.detach().contiguous())
    return parts


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, features):
        return tuple(gather(features))

    @staticmethod
    def backward(_ctx, *gradients):
        summed = torch.stack(gradients)
        dist.all_reduce(summed)
        return summed[dist.get_rank()]


def features_of_all(features):
    if FIXED:
        return torch.cat(Gather.apply(features))
    parts = gather(features)
    parts[dist.get_rank()] = features
    return torch.cat(parts)


def main():
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(4):
        images = torch.randn(6, 12)
        views = torch.cat([images, images + 0.1 * torch.randn(6, 12)])
        first, second = F.normalize(model(views)).chunk(2)
        logits = 5 * features_of_all(first) @ features_of_all(second).T
        loss = F.cross_entropy(logits, torch.arange(len(logits)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
