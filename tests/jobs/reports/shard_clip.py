"""FSDP2, with the norm limited by hand."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard
from toys import FIXED, LM, lines, start


def main():
    rank, world = start()
    model = LM()
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(5):
        x, y = lines(rank, step)
        n = (y != -100).sum()
        dist.all_reduce(n)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n * world
        opt.zero_grad()
        loss.backward()
        local = [p.grad.to_local() for p in model.parameters()]
        sq = sum(g.pow(2).sum() for g in local)
        if FIXED:
            dist.all_reduce(sq)
        coef = min(1.0, 0.1 / (float(sq) ** 0.5 + 1e-6))
        for g in local:
            g.mul_(coef)
        opt.step()


main()
dist.destroy_process_group()
