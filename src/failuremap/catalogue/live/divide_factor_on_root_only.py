"""FSDP2 is told to sum the gradients of a globally normalised loss; only the root module hears of it.

failuremap audit --nproc 2 -- divide_factor_on_root_only.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

FIXED = "--fixed" in sys.argv


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world_size,))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 16), nn.Linear(16, 32))
    fully_shard(model[1], mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in model.modules() if FIXED else [model]:
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        tokens = torch.randint(32, (4, 6 + 5 * rank))
        inputs, targets = tokens[:, :-1].flatten(), tokens[:, 1:].flatten()
        token_count = torch.tensor(float(targets.numel()))
        dist.all_reduce(token_count)
        loss = F.cross_entropy(model(inputs), targets, reduction="sum") / token_count
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
