"""Two pipeline stages under GPipe, two micro-batches."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from toys import FIXED, lines, start


def token_loss(out, y):
    return F.cross_entropy(out.flatten(0, 1), y.flatten())


def main():
    rank, world = start()
    full = [
        nn.Sequential(nn.Embedding(23, 16), nn.Linear(16, 16), nn.Tanh()),
        nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 23)),
    ]
    mod = full[rank]
    stage = PipelineStage(mod, rank, world, torch.device("cpu"))
    sched = ScheduleGPipe(stage, n_microbatches=2, loss_fn=token_loss, scale_grads=FIXED)
    opt = torch.optim.SGD(mod.parameters(), 0.1)
    for step in range(4):
        x, _ = lines(0, step, batch=4)
        y = x.roll(-1, 1)
        opt.zero_grad()
        if rank == 0:
            sched.step(x)
        else:
            sched.step(target=y)
        opt.step()


main()
dist.destroy_process_group()
