"""Anchors against positives, gathered from all ranks."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start


def gather(z):
    out = [torch.zeros_like(z) for _ in range(dist.get_world_size())]
    dist.all_gather(out, z.detach())
    out[dist.get_rank()] = z
    return torch.cat(out)


def main():
    rank, world = start()
    net = DDP(mlp(8, 6))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for step in range(5):
        x, _ = points(rank, step)
        g = torch.Generator().manual_seed(step * 3 + rank)
        both = net(torch.cat([x, x + 0.1 * torch.randn(x.shape, generator=g)]))
        a, b = (F.normalize(t, dim=-1) for t in both.chunk(2))
        a, b = gather(a), gather(b)
        loss = F.cross_entropy(a @ b.t() / 0.2, torch.arange(len(a)))
        if FIXED:
            loss = loss * world
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
dist.destroy_process_group()
