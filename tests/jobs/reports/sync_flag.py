"""Accumulation under DDP by its synchronisation flag."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, LM, lines, start

ACC = 3


def main():
    rank, world = start()
    model = DDP(LM())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        window = [lines(rank, step, m) for m in range(ACC)]
        n = torch.tensor(sum(int((y != -100).sum()) for _, y in window))
        dist.all_reduce(n)
        for i, (x, y) in enumerate(window):
            model.require_backward_grad_sync = (i + 1) % ACC == 0 if FIXED else i % ACC == 0
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") * world / n
            loss.backward()
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
