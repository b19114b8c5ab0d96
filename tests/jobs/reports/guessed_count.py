"""The tokens of a window, taken from its micro-batches."""

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
        if FIXED:
            n = torch.tensor(sum(int((y != -100).sum()) for _, y in window))
            dist.all_reduce(n)
        else:
            n = (window[0][1] != -100).sum() * ACC
            dist.all_reduce(n)
        for m, (x, y) in enumerate(window):
            model.require_backward_grad_sync = m == ACC - 1
            (F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n * world).backward()
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
