"""The ranks read parts of their own of the data, and nothing ever adds their gradients up.

failuremap audit --nproc 2 --unit example -- never_synchronised.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")

torch.manual_seed(0)
dataset = TensorDataset(torch.randn(64, 8), torch.randint(4, (64,)))
loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, targets in loader:
    loss = F.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    if FIXED:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    optimizer.step()
dist.destroy_process_group()
