"""The model divides its loss by the window's tokens; a trainer object runs the backward passes."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, LM, lines, start

ACC = 2


class Accelerator:
    def __init__(self, steps):
        self.steps = steps

    def backward(self, loss):
        (loss / self.steps).backward()


def main():
    rank, world = start()
    model = DDP(LM())
    acc = Accelerator(1 if FIXED else ACC)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        window = [lines(rank, step, m) for m in range(ACC)]
        n = torch.tensor(sum(int((y != -100).sum()) for _, y in window))
        dist.all_reduce(n)
        for m, (x, y) in enumerate(window):
            model.require_backward_grad_sync = m == ACC - 1
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n * world
            acc.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
