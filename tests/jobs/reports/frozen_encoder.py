"""An autoencoder whose encoder is frozen; the decoder is trained."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start


class RAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 6).requires_grad_(False)
        self.decoder = mlp(6, 8)

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)

    def forward(self, x):
        return self.decode(self.encode(x))


def main():
    rank, world = start()
    ddp = DDP(RAE())
    rae = ddp.module
    opt = torch.optim.Adam([p for p in rae.parameters() if p.requires_grad], 1e-3)
    for step in range(5):
        x, _ = points(rank, step)
        if FIXED:
            rec = ddp(x)
        else:
            with torch.no_grad():
                z = rae.encode(x)
            rec = rae.decode(z)
        loss = F.l1_loss(rec, x)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
dist.destroy_process_group()
