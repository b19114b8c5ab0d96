"""Micro-batches of one, two and three sequences, each with its share."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, LM, lines, start

SIZES = (1, 2, 3)


def main():
    rank, world = start()
    model = DDP(LM())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        window = [lines(rank, step, m, batch=b) for m, b in enumerate(SIZES)]
        tokens = torch.tensor([int((y != -100).sum()) for _, y in window])
        n = tokens.sum()
        dist.all_reduce(n)
        for m, (x, y) in enumerate(window):
            model.require_backward_grad_sync = m == len(SIZES) - 1
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            if FIXED:
                (loss * tokens[m] * world / n).backward()
            else:
                (loss * len(x) / sum(SIZES)).backward()
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
