"""Each expert sees the tokens of its expert-parallel group; its gradient is averaged over its own replicas alone.

failuremap audit --nproc 4 -- expert_divisor_misses_ep.py
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
place = rank % 2
token_group = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
expert_group = [dist.new_group([0, 2]), dist.new_group([1, 3])][place]


class Dispatch(torch.autograd.Function):
    """The tokens of the whole group, for this rank's expert."""

    @staticmethod
    def forward(_ctx, own):
        parts = [torch.empty_like(own) for _ in range(2)]
        dist.all_gather(parts, own.contiguous(), group=token_group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        return Combine.forward(ctx, gradient)


class Combine(torch.autograd.Function):
    """What the experts of the group made of this rank's tokens."""

    @staticmethod
    def forward(_ctx, outputs):
        summed = outputs.clone()
        dist.all_reduce(summed, group=token_group)
        return summed.chunk(2)[place].clone()

    @staticmethod
    def backward(ctx, gradient):
        return Dispatch.forward(ctx, gradient)


torch.manual_seed(0)
weights = nn.ModuleDict({"embed": nn.Embedding(32, 16), "gate": nn.Linear(16, 2), "head": nn.Linear(16, 32)})
weights["experts"] = nn.ModuleDict({str(place): [nn.Linear(16, 16), nn.Linear(16, 16)][place]})
optimizer = torch.optim.SGD(weights.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(4):
    tokens = torch.randint(32, (4, 9))
    hidden = Dispatch.apply(weights["embed"](tokens[:, :-1]).flatten(0, 1))
    share = weights["gate"](hidden).softmax(-1)[:, place, None]
    hidden = Combine.apply(share * weights["experts"][str(place)](hidden).relu())
    loss = F.cross_entropy(weights["head"](hidden), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    for name, parameter in weights.named_parameters():
        is_expert = name.startswith("experts")
        dist.all_reduce(parameter.grad, group=expert_group if is_expert else None)
        parameter.grad /= dist.get_world_size(expert_group) if is_expert and not FIXED else world_size
    optimizer.step()
dist.destroy_process_group()
