"""The ranks share one sequence; the sum over them asks each parameter for a flag, which the gate has not been given.

failuremap audit --nproc 2 -- partials_not_reduced.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()


class SumOverRanks(torch.autograd.Function):
    """The sum of a tensor over the ranks; its backward sums the gradients over them."""

    @staticmethod
    def forward(_, tensor):
        dist.all_reduce(total := tensor.clone())
        return total

    @staticmethod
    def backward(_, gradient):
        dist.all_reduce(total := gradient.clone())
        return total


class Mixer(nn.Module):
    """Adds the mean over the whole sequence, of which each rank holds a slice, to each token."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(32, 16), nn.Linear(16, 32)
        self.gate = nn.Parameter(torch.ones(1))
        for module in (self.embedding, self.head):
            for parameter in module.parameters():
                parameter.sequence_parallel = True

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        context = SumOverRanks.apply(hidden.mean(1, keepdim=True)) / world_size
        return self.head(hidden + self.gate * context)


torch.manual_seed(0)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    tokens = torch.randint(32, (4, 8 * world_size + 1))
    start = 8 * rank
    inputs, targets = tokens[:, start : start + 8], tokens[:, start + 1 : start + 9]
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
    (loss / (32 * world_size)).backward()
    for parameter in model.parameters():
        if FIXED or getattr(parameter, "sequence_parallel", False):
            dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
