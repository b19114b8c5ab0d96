"""17 examples, a distributed sampler, batches of 3."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from toys import FIXED, mlp, start


def main():
    rank, world = start()
    g = torch.Generator().manual_seed(0)
    x = torch.randn(17, 8, generator=g)
    data = TensorDataset(x, x[:, :1] * x[:, 1:2])
    sampler = DistributedSampler(data, shuffle=True, drop_last=FIXED)
    net = DDP(mlp())
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for a, b in DataLoader(data, batch_size=3, sampler=sampler):
            loss = F.mse_loss(net(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()


main()
dist.destroy_process_group()
