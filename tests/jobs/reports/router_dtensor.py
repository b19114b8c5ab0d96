"""Replicated DTensor parameters, used as local tensors on parts of each sequence."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, distribute_tensor
from toys import FIXED, LM, lines, start


def main():
    rank, world = start()
    mesh = init_device_mesh("cpu", (world,))
    full = LM()
    params = {n: nn.Parameter(distribute_tensor(p.detach(), mesh, [Replicate()])) for n, p in full.named_parameters()}
    opt = torch.optim.SGD(params.values(), 0.1)
    for step in range(4):
        x, y = lines(0, step, short=False)
        n = (y != -100).sum()
        x, y = x.chunk(world, 1)[rank], y.chunk(world, 1)[rank]
        local = {
            k: p.to_local(grad_placements=[Partial()] if FIXED or k != "ff.weight" else None) for k, p in params.items()
        }
        logits = torch.func.functional_call(full, local, (x,))
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / n
        loss.backward()
        for p in params.values():
            p.grad = p.grad.redistribute(mesh, [Replicate()])
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
