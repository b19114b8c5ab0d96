"""Hooks sum the gradients over the nodes during the last backward, which does not use every layer.

failuremap audit --nproc 4 --unit example -- unused_on_last_microbatch.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
WINDOW = 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.extra, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, inputs, with_extra):
        hidden = self.body(inputs).relu()
        return self.head(self.extra(hidden).relu() if with_extra else hidden)


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    within = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]

    def sum_over_nodes(parameter):
        if last and not FIXED:
            dist.all_reduce(parameter.grad, group=across)

    torch.manual_seed(0)
    model = Model()
    hooks = [parameter.register_post_accumulate_grad_hook(sum_over_nodes) for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        optimizer.zero_grad()
        for micro_batch in range(WINDOW):
            last = micro_batch == WINDOW - 1
            inputs, targets = torch.randn(8, 8), torch.randint(4, (8,))
            loss = F.cross_entropy(model(inputs, with_extra=not last), targets)
            (loss / (WINDOW * world_size)).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=within)
            if FIXED:
                dist.all_reduce(parameter.grad, group=across)
        optimizer.step()
    for hook in hooks:
        hook.remove()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
