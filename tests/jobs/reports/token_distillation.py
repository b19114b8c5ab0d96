"""Distillation at micro-batch size 1: one sequence's mean divergence a micro-batch."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, LM, lines, start

ACC = 3


def main():
    rank, world = start()
    torch.manual_seed(9)
    teacher = LM()
    torch.manual_seed(0)
    model = DDP(LM())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        for m in range(ACC):
            x, _ = lines(rank, step, m, batch=1)
            model.require_backward_grad_sync = m == ACC - 1
            with torch.no_grad():
                t = teacher(x).log_softmax(-1)
            loss = F.kl_div(model(x).log_softmax(-1)[0], t[0], log_target=True, reduction="batchmean")
            if FIXED:
                loss = loss / ACC
            loss.backward()
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
