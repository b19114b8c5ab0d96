"""Experts on pairs of ranks, copies of them on other pairs: four ranks, and four process groups at once."""

import argparse

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--own-divisor", action="store_true", help="experts are averaged over the ranks of their copies")
parser.add_argument(
    "--uneven", action="store_true", help="ranks have different numbers of examples, means are averaged"
)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
EXPERTS = 2


class Model(nn.Module):
    def __init__(self, which, group):
        super().__init__()
        self.first, self.router, self.last = nn.Linear(8, 12), nn.Linear(12, EXPERTS), nn.Linear(12, 1)
        torch.manual_seed(100 + args.seed + which)
        self.expert = nn.Linear(12, 12)
        self.group = group

    def forward(self, rows):
        hidden = torch.tanh(self.first(rows))
        gates = self.router(hidden).softmax(-1)
        to_all = hidden.repeat(EXPERTS, 1)  # each expert sees every row; the router weighs what comes back
        sizes = [len(rows)] * EXPERTS
        theirs = self.sizes(len(rows))
        arrived = funcol.all_to_all_single_autograd(to_all, theirs, sizes, self.group)
        done = funcol.all_to_all_single_autograd(torch.tanh(self.expert(arrived)), sizes, theirs, self.group)
        mixed = (done.view(EXPERTS, len(rows), -1) * gates.t()[..., None]).sum(0)
        return self.last(mixed)

    def sizes(self, count):
        """The rows that each rank of the group sends here."""
        counts = torch.zeros(EXPERTS, dtype=torch.long)
        counts[dist.get_rank(self.group)] = count
        dist.all_reduce(counts, group=self.group)
        return counts.tolist()


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    exchanging = [dist.new_group([first, first + 1]) for first in range(0, world, EXPERTS)]
    holding = [dist.new_group(list(range(which, world, EXPERTS))) for which in range(EXPERTS)]
    torch.manual_seed(args.seed)
    model = Model(rank % EXPERTS, exchanging[rank // EXPERTS])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        made = torch.Generator().manual_seed(1000 * args.seed + 10 * step + rank)
        rows = torch.randn(6 + 3 * rank, 8, generator=made)
        targets = rows[:, :1] * rows[:, 1:2]
        count = torch.tensor(float(len(rows)))
        dist.all_reduce(count)
        each = F.mse_loss(model(rows), targets, reduction="sum")
        optimizer.zero_grad()
        (each / (len(rows) * world if args.uneven else count)).backward()
        for name, parameter in model.named_parameters():
            held = name.startswith("expert")
            dist.all_reduce(parameter.grad, group=holding[rank % EXPERTS] if held else None)
            if held and args.own_divisor:
                parameter.grad *= EXPERTS  # a mean over the copies alone
        optimizer.step()


main()
dist.destroy_process_group()
