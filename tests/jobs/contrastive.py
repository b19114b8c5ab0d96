"""A contrastive loss over the features of all ranks, which each rank computes in full."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ap = argparse.ArgumentParser()
ap.add_argument("--gather", default="sum", choices=["sum", "slice", "none"], help="what its backward hands on")
ap.add_argument("--times-world", action="store_true")
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--lr", type=float, default=0.1)
ap.add_argument("--save", default="")
a = ap.parse_args()


def of_all(features):
    parts = [torch.empty_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features.detach().contiguous())
    return parts


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, features):
        return tuple(of_all(features))

    @staticmethod
    def backward(_ctx, *gradients):
        if a.gather == "slice":
            return gradients[dist.get_rank()]
        summed = torch.stack(gradients)
        dist.all_reduce(summed)
        return summed[dist.get_rank()]


def gathered(features):
    if a.gather != "none":
        return torch.cat(Gather.apply(features))
    parts = of_all(features)
    parts[dist.get_rank()] = features
    return torch.cat(parts)


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(a.seed)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=a.lr)
    generator = torch.Generator().manual_seed(100 + a.seed)
    for _ in range(a.steps):
        images, noise = torch.randn(2, 12, 8, generator=generator).chunk(world_size, 1)[rank]
        first, second = F.normalize(model(torch.cat([images, images + 0.1 * noise]))).chunk(2)
        logits = 5 * gathered(first) @ gathered(second).T
        loss = F.cross_entropy(logits, torch.arange(12))
        optimizer.zero_grad()
        (loss * (world_size if a.times_world else 1)).backward()
        optimizer.step()
    if rank == 0 and a.save:
        torch.save(model.module.state_dict(), a.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
