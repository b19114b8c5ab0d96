"""A loss scaler, and gradients averaged by hand; one overflow."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from toys import FIXED, mlp, points, start


def main():
    rank, world = start()
    net = mlp()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
    for step in range(6):
        x, y = points(rank, step)
        scaler.scale(F.mse_loss(net(x), y)).backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        if step == 2 and (rank == 1 or FIXED):  # the overflow
            net[0].weight.grad[0, 0] = float("inf")
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()


main()
dist.destroy_process_group()
