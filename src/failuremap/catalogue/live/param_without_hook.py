"""A classifier gets its head after DDP has put its hooks on the parameters.

failuremap audit --nproc 2 --unit example -- param_without_hook.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    backbone, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 4)
    if FIXED:
        backbone.append(head)
        model = DistributedDataParallel(backbone)
    else:
        model = DistributedDataParallel(backbone)
        model.module.append(head)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        inputs, targets = torch.randn(8, 8), torch.randint(4, (8,))
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()  # frees DDP before its process group ends
dist.destroy_process_group()
