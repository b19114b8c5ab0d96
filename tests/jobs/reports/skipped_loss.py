"""Micro-batches whose loss is not a number are skipped."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from toys import FIXED, LM, lines, start

ACC = 3


def main():
    rank, world = start()
    model = LM()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        n = torch.zeros(())
        for m in range(ACC):
            x, y = lines(rank, step, m)
            logits = model(x)
            if m == 1 and rank == step % 2:
                logits = logits * float("nan")
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum")
            if not FIXED:
                n += (y != -100).sum()
            if torch.isnan(loss):
                continue
            if FIXED:
                n += (y != -100).sum()
            loss.backward()
        dist.all_reduce(n)
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= n
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
