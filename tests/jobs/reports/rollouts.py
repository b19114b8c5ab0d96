"""Policy gradients over rollouts on FSDP2; the clipped objective is written out by hand."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from toys import FIXED, LM, lines, start


def main():
    rank, world = start()
    mesh = init_device_mesh("cpu", (world,))
    model = LM()
    fully_shard(model.ff, mesh=mesh)
    fully_shard(model, mesh=mesh)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        x, y = lines(rank, step)
        mask = y != -100
        adv = torch.randn(x.shape[0], 1, generator=torch.Generator().manual_seed(step * 7 + rank))
        old = torch.full(x.shape, -3.1)
        logp = model(x).log_softmax(-1).gather(-1, y.clamp(min=0)[..., None])[..., 0]
        ratio = (logp - old).exp()
        per_token = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
        total = (per_token * mask).sum()
        n = mask.sum()
        if FIXED:
            dist.all_reduce(n)
            loss = total / n * world
        else:
            loss = total / n
        loss.backward()
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
