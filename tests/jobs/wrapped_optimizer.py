"""Optimizers around optimizers: Lookahead, sharpness-aware, sharded states, and one optimizer a parameter."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("kind", choices=["lookahead", "sam", "zero", "in-backward"])
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--uneven", action="store_true", help="ranks have different numbers of examples and average means")
parser.add_argument("--save", default="")
args = parser.parse_args()


class Lookahead(torch.optim.Optimizer):
    """Every third step, the weights go half of the way that the inner optimizer made."""

    def __init__(self, inner):
        super().__init__(inner.param_groups, {"lr": args.lr})
        self.inner, self.count = inner, 0
        self.param_groups = inner.param_groups
        self.slow = [[p.detach().clone() for p in group["params"]] for group in self.param_groups]

    @torch.no_grad()
    def step(self, closure=None):
        self.inner.step()
        self.count += 1
        if self.count % 3 == 0:
            for group, slow in zip(self.param_groups, self.slow, strict=True):
                for p, old in zip(group["params"], slow, strict=True):
                    p.copy_(old.lerp_(p, 0.5))


class SAM(torch.optim.Optimizer):
    """A step up to where the loss is worst nearby, and the inner optimizer's step with the gradient found there."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": args.lr})
        self.inner = torch.optim.SGD(self.param_groups, lr=args.lr, momentum=0.9)
        self.param_groups = self.inner.param_groups

    @torch.no_grad()
    def climb(self, rho=0.05):
        held = [p for group in self.param_groups for p in group["params"]]
        norm = torch.stack([p.grad.norm() for p in held]).norm()
        for p in held:
            self.state[p]["before"] = p.clone()
            p.add_(p.grad, alpha=float(rho / (norm + 1e-12)))
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p]["before"])
        self.inner.step()


def batches(world, rank):
    """The same number of examples for every rank, or, uneven, twice as many for each next rank."""
    data = torch.Generator().manual_seed(args.seed + 1)
    for _ in range(args.steps):
        x = torch.randn(args.batch, 8, generator=data)
        y = torch.randint(0, 4, (args.batch,), generator=data)
        sizes = [args.batch // world] * world
        if args.uneven and world == 2:
            sizes = [args.batch // 3, args.batch - args.batch // 3]
        yield x.split(sizes)[rank], y.split(sizes)[rank]


def in_backward(net, world):
    """Each parameter steps as soon as its gradient is there; no gradient is ever kept."""
    own = {p: torch.optim.SGD([p], lr=args.lr) for p in net.parameters()}

    def step(p):
        dist.all_reduce(p.grad)
        p.grad /= world
        own[p].step()
        own[p].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(step)


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    if args.kind == "in-backward":
        in_backward(net, world)
        for x, y in batches(world, rank):
            F.cross_entropy(net(x), y).backward()
    else:
        model = DDP(net)
        optimizer = {
            "lookahead": lambda: Lookahead(torch.optim.SGD(model.parameters(), lr=args.lr)),
            "sam": lambda: SAM(model.parameters()),
            "zero": lambda: ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=args.lr),
        }[args.kind]()
        for x, y in batches(world, rank):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            if args.kind == "sam":
                optimizer.climb()
                F.cross_entropy(model(x), y).backward()
            optimizer.step()
    if rank == 0 and args.save:
        torch.save(net.state_dict(), args.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
