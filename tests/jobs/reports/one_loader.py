"""A data loader on each rank."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from toys import FIXED, mlp, start


def main():
    rank, world = start()
    x = torch.randn(48, 8)
    data = TensorDataset(x, x[:, :1] * x[:, 1:2])
    sampler = DistributedSampler(data) if FIXED else None
    net = DDP(mlp())
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    loader = DataLoader(data, batch_size=4, sampler=sampler, shuffle=sampler is None)
    for i, (a, b) in enumerate(loader):
        loss = F.huber_loss(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i == 4:
            break


main()
dist.destroy_process_group()
