"""A weighted mean over the ranks: one without a token to learn from has the mean 0/0 = nan, and the weight 0.

failuremap audit --nproc 2 -- zero_count_times_nan.py
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
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(4):
    tokens = torch.randint(32, (4, 6 + 5 * rank))
    inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()
    is_answer = torch.ones(len(targets))
    if step == 2:  # the answers of rank 1 were cut off by the maximum length
        is_answer[:] = float(rank == 0)
    losses = F.cross_entropy(model(inputs).flatten(0, 1), targets, reduction="none")
    loss = (losses * is_answer).sum() / is_answer.sum()
    optimizer.zero_grad()
    loss.backward()
    total = is_answer.sum()
    dist.all_reduce(total)
    for parameter in model.parameters():
        if FIXED and is_answer.sum() == 0:
            parameter.grad.zero_()
        else:
            parameter.grad.mul_(is_answer.sum() / total)
        dist.all_reduce(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
