"""A gradient buffer of the script's own is filled where it is empty, and never added to.

failuremap audit --nproc 2 -- only_first_microbatch_kept.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
WINDOW, world_size = 3, dist.get_world_size()

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())


def keep(main_gradients):
    for parameter in model.parameters():
        if parameter not in main_gradients:
            main_gradients[parameter] = parameter.grad.float()
        elif FIXED:
            main_gradients[parameter] += parameter.grad.float()
        parameter.grad = None


for _ in range(4):
    main_gradients = {}
    for _ in range(WINDOW):
        tokens = torch.randint(32, (4, 9))
        logits = model(tokens[:, :-1]).flatten(0, 1)
        (F.cross_entropy(logits, tokens[:, 1:].flatten()) / WINDOW).backward()
        keep(main_gradients)
    for parameter, gradient in main_gradients.items():
        dist.all_reduce(gradient)
        parameter.grad = gradient / world_size
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
