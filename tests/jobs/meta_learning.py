"""Meta-learning: an inner step by torch.autograd.grad and functional_call, one backward through all tasks."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--tasks", type=int, default=4)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--first-order", action="store_true")
parser.add_argument("--save", default="")
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(args.seed)
net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=args.lr)


def adapted(x, y):
    """The weights after one step on a task's few examples."""
    weights = dict(net.named_parameters())
    loss = F.cross_entropy(functional_call(net, weights, x), y)
    gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=not args.first_order)
    return {name: w - 0.1 * g for (name, w), g in zip(weights.items(), gradients, strict=True)}


for step in range(args.steps):
    optimizer.zero_grad()
    total = 0
    for _ in range(args.tasks):
        support, query = torch.randn(5, 5), torch.randn(6, 5)
        fast = adapted(support, torch.randint(0, 3, (5,)))
        total = total + F.cross_entropy(functional_call(net, fast, query), torch.randint(0, 3, (6,)))
    (total / args.tasks).backward()
    optimizer.step()
if args.save:
    torch.save(net.state_dict(), args.save)
