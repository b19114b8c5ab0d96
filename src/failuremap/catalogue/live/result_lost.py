"""The sum over the nodes is taken in double precision, in a copy that is then forgotten.

failuremap audit --nproc 4 --unit example -- result_lost.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv


def reduce_gradients(model, within, across):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=within)
        precise = parameter.grad.double()
        dist.all_reduce(precise, group=across)
        if FIXED:
            parameter.grad.copy_(precise)


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    within = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        inputs, targets = torch.randn(8, 8), torch.randint(4, (8,))
        optimizer.zero_grad()
        (F.cross_entropy(model(inputs), targets) / world_size).backward()
        reduce_gradients(model, within, across)
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
