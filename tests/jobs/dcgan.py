"""A GAN as in PyTorch's DCGAN example: the discriminator's two backward passes come from one line of code."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--unsynced-fake", action="store_true", help="the fake half is backpropagated under no_sync")
parser.add_argument("--save", default="")
opt = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(opt.seed)
noise = torch.Generator().manual_seed(opt.seed + 1)
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 6))
discriminator = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1), nn.Sigmoid())
net_g, net_d = DDP(generator), DDP(discriminator)
optimizer_g = torch.optim.SGD(net_g.parameters(), lr=opt.lr)
optimizer_d = torch.optim.SGD(net_d.parameters(), lr=opt.lr)
criterion = nn.BCELoss()


def drawn(width):
    return torch.randn(opt.batch, width, generator=noise).chunk(world)[rank]


def error(batch, label):
    return criterion(net_d(batch), torch.full((len(batch), 1), float(label)))


for step in range(opt.steps):
    net_d.zero_grad()
    real, fake = 0.5 * drawn(6) + 1, net_g(drawn(4))
    error(real, 1).backward()
    if opt.unsynced_fake:
        with net_d.no_sync():
            error(fake.detach(), 0).backward()
    else:
        error(fake.detach(), 0).backward()
    optimizer_d.step()
    net_g.zero_grad()
    error(fake, 1).backward()
    optimizer_g.step()
if rank == 0 and opt.save:
    torch.save({**{f"g.{k}": v for k, v in generator.state_dict().items()}, **discriminator.state_dict()}, opt.save)
dist.destroy_process_group()
