"""The sum over the nodes is started asynchronously, and waited for after the step.

failuremap audit --nproc 4 --unit example -- read_before_reduced.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv


def start_reduction(model, within, across):
    pending = []
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=within)
        buffer = parameter.grad.clone()
        pending.append((parameter, buffer, dist.all_reduce(buffer, group=across, async_op=True)))
    return pending


def finish_reduction(pending):
    for parameter, buffer, work in pending:
        work.wait()
        parameter.grad.copy_(buffer)


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
        pending = start_reduction(model, within, across)
        if FIXED:
            finish_reduction(pending)
            optimizer.step()
        else:
            optimizer.step()
            finish_reduction(pending)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
