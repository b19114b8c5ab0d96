"""optimizer.zero_grad() clears .grad; the buffer that gradients are added to is another one, and keeps its contents.

failuremap audit --nproc 2 -- stale_gradient_leaks.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
world_size = dist.get_world_size()

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
main_gradients = {parameter: torch.zeros_like(parameter) for parameter in model.parameters()}
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    logits = model(tokens[:, :-1]).flatten(0, 1)
    F.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
    for parameter, gradient in main_gradients.items():
        if FIXED:
            gradient.zero_()
        dist.all_reduce(parameter.grad)
        gradient += parameter.grad / world_size
        parameter.grad = gradient.clone()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
