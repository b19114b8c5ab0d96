"""The first and the last stage of a pipeline hold copies of the tied embedding, and each copy is stepped on alone.

failuremap audit --nproc 2 -- tied_copies_not_summed.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

FIXED = "--fixed" in sys.argv


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 16) / 4)

    def forward(self, tokens):
        return F.embedding(tokens, self.weight).tanh()


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(32, 16))

    def forward(self, hidden):
        return F.linear(hidden, self.weight)


def token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(rank)
    model = First() if rank == 0 else Last()
    dist.broadcast(model.weight.data, 0)  # one weight, in two processes
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=token_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    for _ in range(4):
        tokens = torch.randint(32, (4, 9))
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(tokens[:, :-1])
        else:
            schedule.step(target=tokens[:, 1:])
        if FIXED:
            dist.all_reduce(model.weight.grad)
        optimizer.step()


main()
dist.destroy_process_group()
