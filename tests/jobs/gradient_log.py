"""Two heads on one trunk, two backward passes; before them, torch.autograd.grad gives the norms for the log."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--one-loss", action="store_true", help="the second head does not train")
parser.add_argument("--log-all", action="store_true", help="log every parameter's norm and not the trunk's alone")
parser.add_argument("--forget-second", action="store_true", help="the second loss is looked at and never trains")
parser.add_argument("--save", default="")
args = parser.parse_args()


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 32)
        self.classes = nn.Linear(32, 4)
        self.values = nn.Linear(32, 2)

    def forward(self, x):
        hidden = F.gelu(self.trunk(x))
        return self.classes(hidden), self.values(hidden)


def norm(loss, model):
    """The norm of a loss's gradient, for the log; nothing of it is kept."""
    looked_at = list(model.parameters()) if args.log_all else [model.trunk.weight]
    found = torch.autograd.grad(loss, looked_at, retain_graph=True, allow_unused=True)
    return torch.stack([gradient.norm() for gradient in found if gradient is not None]).norm()


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    data = torch.Generator().manual_seed(args.seed + 1)
    for step in range(args.steps):
        x = torch.randn(args.batch, 8, generator=data).chunk(world)[rank]
        y = torch.randint(0, 4, (args.batch,), generator=data).chunk(world)[rank]
        z = torch.randn(args.batch, 2, generator=data).chunk(world)[rank]
        optimizer.zero_grad()
        classes, values = model(x)
        losses = [F.cross_entropy(classes, y)] + ([] if args.one_loss else [0.5 * F.l1_loss(values, z)])
        print(step, *(f"{norm(loss, model).item():.3f}" for loss in losses))
        for loss in losses[:1] if args.forget_second else losses:
            loss.backward(retain_graph=True)
        for p in model.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
                p.grad /= world
        optimizer.step()
    if rank == 0 and args.save:
        torch.save(model.state_dict(), args.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
