"""The summed loss is divided by the size of the targets, padding included.

failuremap audit --nproc 2 -- divisor_counts_idle_parts.py
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence

FIXED = "--fixed" in sys.argv
PADDING = -100


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for _ in range(4):
        sentences = [torch.randint(32, (int(torch.randint(4, 12, ())),)) for _ in range(6)]
        inputs = pad_sequence([tokens[:-1] for tokens in sentences], batch_first=True)
        targets = pad_sequence([tokens[1:] for tokens in sentences], batch_first=True, padding_value=PADDING)
        token_count = (targets != PADDING).sum() if FIXED else torch.tensor(targets.numel())
        dist.all_reduce(token_count)
        logits = model(inputs).flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), ignore_index=PADDING, reduction="sum")
        optimizer.zero_grad()
        (loss * world_size / token_count).backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
