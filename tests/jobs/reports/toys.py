"""Small models and data for the scripts of reports, and whether they run in their repaired form (--fixed)."""

import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv


def start():
    """The process group, the same initial weights everywhere; the rank and how many there are."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    return dist.get_rank(), dist.get_world_size()


def lines(rank, step, micro=0, batch=3, length=12, vocab=23, short=True):
    """Token batch and labels; no label on padding, of which rank 1 has more if `short`."""
    g = torch.Generator().manual_seed(1000 * step + 10 * rank + micro)
    x = torch.randint(0, vocab, (batch, length), generator=g)
    y = x.roll(-1, 1).clone()
    for i in range(batch):
        keep = int(torch.randint(2, length - 1, (1,), generator=g))
        if short and rank == 1:
            keep = max(1, keep // 2)
        y[i, keep:] = -100
    return x, y


def points(rank, step, micro=0, batch=6, dim=8):
    """Points and a value of each."""
    g = torch.Generator().manual_seed(7000 + 1000 * step + 10 * rank + micro)
    x = torch.randn(batch, dim, generator=g)
    return x, x[:, :1] * x[:, 1:2] + 0.5 * x[:, 2:3]


class LM(nn.Module):
    """A language model that sees the mean of what came before."""

    def __init__(self, vocab=23, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.ff = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, x):
        h = self.emb(x)
        h = h + torch.tanh(self.ff(h.cumsum(1) / 4))
        return self.head(self.norm(h))


def mlp(dim=8, out=1):
    return nn.Sequential(nn.Linear(dim, 16), nn.Tanh(), nn.Linear(16, out))
