"""A fused head and cross entropy that computes its gradients in the forward pass."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, lines, start


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, w, y):
        with torch.enable_grad():
            h_, w_ = h.detach().requires_grad_(), w.detach().requires_grad_()
            loss = F.cross_entropy(h_ @ w_.t(), y, reduction="sum")
            ctx.save_for_backward(*torch.autograd.grad(loss, (h_, w_)))
        return loss.detach()

    @staticmethod
    def backward(ctx, g):
        gh, gw = ctx.saved_tensors
        return (gh * g, gw * g, None) if FIXED else (gh, gw, None)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(23, 16)
        self.ff = nn.Linear(16, 16)
        self.w = nn.Parameter(torch.randn(23, 16) * 0.1)

    def forward(self, x, y):
        h = torch.tanh(self.ff(self.emb(x)))
        return Fused.apply(h.flatten(0, 1), self.w, y.flatten())


def main():
    rank, world = start()
    model = DDP(Net())
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(4):
        x, y = lines(rank, step)
        n = (y != -100).sum()
        dist.all_reduce(n)
        loss = model(x, y) * world / n
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
dist.destroy_process_group()
