"""A small GAN: two models, two optimizers that step at different times; the discriminator steps twice as often."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--d-steps", type=int, default=2)
parser.add_argument("--forget-generator", action="store_true", help="the generator is used without its wrapper")
parser.add_argument("--save", default="")
opt = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(opt.seed)
noise = torch.Generator().manual_seed(opt.seed + 1)


def mine(x):
    return x.chunk(world)[rank]


def main():
    generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    netG, netD = DDP(generator), DDP(discriminator)
    if opt.forget_generator:
        netG = generator
    optG = torch.optim.SGD(netG.parameters(), lr=opt.lr)
    optD = torch.optim.SGD(netD.parameters(), lr=opt.lr)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(opt.steps):
        for _ in range(opt.d_steps):
            real = torch.randn(opt.batch, 2, generator=noise) * 0.3 + 1
            z = torch.randn(opt.batch, 8, generator=noise)
            optD.zero_grad()
            fake = netG(mine(z)).detach()
            both = netD(torch.cat([mine(real), fake]))
            labels = torch.cat([torch.ones(len(fake), 1), torch.zeros(len(fake), 1)])
            criterion(both, labels).backward()
            optD.step()
        z = torch.randn(opt.batch, 8, generator=noise)
        optG.zero_grad()
        for p in discriminator.parameters():
            p.requires_grad_(False)
        scores = discriminator(netG(mine(z)))
        for p in discriminator.parameters():
            p.requires_grad_(True)
        criterion(scores, torch.ones(len(scores), 1)).backward()
        optG.step()
    if opt.save and os.environ["RANK"] == "0":
        torch.save({**{f"g.{k}": v for k, v in generator.state_dict().items()}, **discriminator.state_dict()}, opt.save)


main()
dist.destroy_process_group()
