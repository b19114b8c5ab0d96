"""The gradients are scaled after the last backward of a window."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, LM, lines, start

ACC = 2


def scale_grads(model, s):
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= s


def main():
    rank, world = start()
    model = DDP(LM())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    ce = nn.CrossEntropyLoss(ignore_index=-100)
    seen = torch.zeros(())
    for step in range(4):
        for m in range(ACC):
            x, y = lines(rank, step, m)
            k = (y != -100).sum()
            seen = seen + k
            model.require_backward_grad_sync = m == ACC - 1
            (ce(model(x).flatten(0, 1), y.flatten()) * k).backward()
        dist.all_reduce(seen)
        scale_grads(model, (world if FIXED else 1) / seen)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        opt.step()
        opt.zero_grad(set_to_none=True)
        seen = torch.zeros(())


main()
dist.destroy_process_group()
