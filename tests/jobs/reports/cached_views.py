"""Contrastive training in chunks, by cached representations."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start


def main():
    rank, world = start()
    net = DDP(mlp(8, 6))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for step in range(5):
        x, _ = points(rank, step, 0, 8)
        chunks = x.chunk(2)
        with torch.no_grad():
            reps = torch.cat([net.module(c) for c in chunks])
        reps = F.normalize(reps, dim=-1).requires_grad_()
        every = [torch.zeros_like(reps) for _ in range(world)]
        dist.all_gather(every, reps.detach())
        every[rank] = reps
        every = torch.cat(every)
        target = torch.arange(len(every)) ^ 1
        sim = every @ every.t() / 0.2 - 1e4 * torch.eye(len(every))
        loss = F.cross_entropy(sim, target)
        if FIXED:
            loss = loss * world
        loss.backward()
        opt.zero_grad()
        for i, (c, g) in enumerate(zip(chunks, reps.grad.chunk(2))):
            net.require_backward_grad_sync = i == 1
            z = F.normalize(net(c), dim=-1)
            (z * g).sum().backward()
        opt.step()


main()
dist.destroy_process_group()
