"""Two views of each example, contrasted over all ranks through a gathering layer."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start


class GatherLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x.contiguous())
        return tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        if FIXED:
            g = torch.stack(grads)
            dist.all_reduce(g)
            return g[dist.get_rank()]
        return grads[dist.get_rank()]


def main():
    rank, world = start()
    net = DDP(mlp(8, 6))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(5):
        x, _ = points(rank, step)
        g = torch.Generator().manual_seed(step * 3 + rank)
        z = F.normalize(net(torch.cat([x, x + 0.1 * torch.randn(x.shape, generator=g)])), dim=-1)
        z = torch.cat(GatherLayer.apply(z))
        sim = z @ z.t() / 0.5 - 1e4 * torch.eye(len(z))
        n = len(x)
        target = torch.cat([torch.arange(2 * n) + n for _ in range(world)]) % (2 * n) + 2 * n * torch.arange(
            world
        ).repeat_interleave(2 * n)
        loss = F.cross_entropy(sim, target)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
dist.destroy_process_group()
