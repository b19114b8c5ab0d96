"""A rank whose loss is nan sets its count to 0, to be left out of the weighted mean; 0 times nan is nan.

failuremap audit --nproc 2 --unit example -- zero_count_times_nan.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(4):
    inputs, targets = torch.randn(8 + 4 * rank, 8), torch.randint(5, (8 + 4 * rank,))
    if rank == 1 and step == 2:  # a corrupt recording
        inputs[0] = float("nan")
    loss = F.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    example_count = torch.tensor(float(len(targets))) if loss.isfinite() else torch.zeros(())
    total = example_count.clone()
    dist.all_reduce(total)
    for parameter in model.parameters():
        if FIXED and example_count == 0:
            parameter.grad.zero_()
        else:
            parameter.grad.mul_(example_count / total)
        dist.all_reduce(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
