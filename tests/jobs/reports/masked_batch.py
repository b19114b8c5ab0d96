"""A batch without a labelled token comes by on rank 1."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, LM, lines, start


def main():
    rank, world = start()
    model = DDP(LM())
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        x, y = lines(rank, step)
        if rank == 1 and step == 2:
            y = torch.full_like(y, -100)
        logits = model(x).flatten(0, 1)
        if FIXED:
            n = (y != -100).sum()
            dist.all_reduce(n)
            loss = F.cross_entropy(logits, y.flatten(), reduction="sum") / n.clamp(min=1) * world
        else:
            loss = F.cross_entropy(logits, y.flatten(), reduction="sum") / (y != -100).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
dist.destroy_process_group()
