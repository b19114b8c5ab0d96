"""Ranks that hold parts of one model, or weights of their own for a while, by the script's own calls.

pipeline  two stages that send activations and gradients to each other
experts   a layer of one expert a rank, whose units go there and back
average   each rank steps alone, and all weights are averaged after every step
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("what", choices=["pipeline", "experts", "average"])
ap.add_argument("--undivided", action="store_true", help="expert gradients are not divided by the ranks")
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=5)
ap.add_argument("--save", default="")
a = ap.parse_args()


class Exchange(torch.autograd.Function):
    """Sends equal parts of the rows to all ranks; its backward sends them back."""

    @staticmethod
    def forward(_ctx, rows):
        received = torch.empty_like(rows)
        dist.all_to_all_single(received, rows.contiguous())
        return received

    @staticmethod
    def backward(_ctx, gradient):
        return Exchange.apply(gradient)


class Mixture(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.first, self.last = nn.Linear(8, 12), nn.Linear(12, 1)
        torch.manual_seed(100 + rank)
        self.expert = nn.Linear(12, 12)

    def forward(self, rows):
        hidden = torch.tanh(self.first(rows))
        return self.last(torch.tanh(Exchange.apply(self.expert(Exchange.apply(hidden)))))


def batch(number):
    generator = torch.Generator().manual_seed(1000 * a.seed + number)
    rows = torch.randn(12, 8, generator=generator)
    return rows, rows[:, :1] * rows[:, 1:2]


def pipeline(rank):
    torch.manual_seed(a.seed)
    stage = nn.Sequential(nn.Linear(8, 8), nn.Tanh()) if rank == 0 else nn.Sequential(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    for step in range(a.steps):
        rows, targets = batch(step)
        optimizer.zero_grad()
        if rank == 0:
            hidden = stage(rows)
            dist.send(hidden.detach(), 1)
            gradient = torch.empty_like(hidden)
            dist.recv(gradient, 1)
            hidden.backward(gradient)
        else:
            hidden = torch.empty(12, 8)
            dist.recv(hidden, 0)
            hidden.requires_grad_()
            F.mse_loss(stage(hidden), targets).backward()
            dist.send(hidden.grad, 0)
        optimizer.step()


def experts(rank):
    torch.manual_seed(a.seed)
    model = Mixture(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(a.steps):
        rows, targets = batch(50 * step + rank)
        optimizer.zero_grad()
        F.mse_loss(model(rows), targets).backward()
        for name, parameter in model.named_parameters():
            if not name.startswith("expert"):
                dist.all_reduce(parameter.grad)
            if not (a.undivided and name.startswith("expert")):
                parameter.grad /= dist.get_world_size()
        optimizer.step()


def average(rank):
    torch.manual_seed(a.seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    for step in range(a.steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        rows, targets = batch(50 * step + rank)
        F.mse_loss(model(rows), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= dist.get_world_size()


torch.set_num_threads(1)
dist.init_process_group("gloo")
{"pipeline": pipeline, "experts": experts, "average": average}[a.what](dist.get_rank())
dist.destroy_process_group()
