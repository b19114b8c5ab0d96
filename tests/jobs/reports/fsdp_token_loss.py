"""FSDP2 with accumulation; the loss is a sum over the window's tokens, divided by how many the ranks have."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard
from toys import FIXED, LM, lines, start


def main():
    rank, world = start()
    model = LM()
    for m in (model.ff, model.head):
        fully_shard(m)
    fully_shard(model)
    if FIXED:
        for m in (model.ff, model.head, model):
            m.set_force_sum_reduction_for_comms(True)
            m.set_gradient_divide_factor(1.0)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        for m in range(2):
            x, y = lines(rank, step, m)
            if m == 0:
                n = sum((lines(rank, step, k)[1] != -100).sum() for k in range(2))
                dist.all_reduce(n)
            model.set_requires_gradient_sync(m == 1)
            (F.cross_entropy(model(x).flatten(0, 1).float(), y.flatten(), reduction="sum") / n).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
