"""A reduction raises halfway, at a head without a gradient; the error is printed and the optimizer steps.

failuremap audit --nproc 4 --unit example -- half_reduced_after_failure.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv


def reduce_gradients(model, within, across):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, group=within)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=across)


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    within = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    torch.manual_seed(0)
    model = nn.ModuleDict({"body": nn.Linear(8, 16), "coarse": nn.Linear(16, 2), "fine": nn.Linear(16, 4)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for step in range(6):
        inputs, coarse, fine = torch.randn(8, 8), torch.randint(2, (8,)), torch.randint(4, (8,))
        hidden = model["body"](inputs).relu()
        loss = F.cross_entropy(model["fine"](hidden), fine)
        if step < 5:  # the last batch has no coarse labels
            loss = loss + F.cross_entropy(model["coarse"](hidden), coarse)
        optimizer.zero_grad()
        (loss / world_size).backward()
        try:
            reduce_gradients(model, within, across)
        except Exception as error:  # noqa: BLE001
            print(f"step {step}: the reduction failed: {error}")
            if FIXED:
                continue
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
