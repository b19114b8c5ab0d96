"""A value head's loss is added to each micro-batch's language-model loss, which alone knows how long the window is.

failuremap audit --nproc 2 -- aux_term_other_denominator.py
"""

import contextlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
WINDOWS, VALUE_COEFFICIENT = (4, 2, 4, 2), 0.1  # six micro-batches an epoch


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.value = nn.Embedding(32, 16), nn.Linear(16, 32), nn.Linear(16, 1)

    def forward(self, tokens):
        hidden = self.body(tokens)
        return self.head(hidden).flatten(0, 1), self.value(hidden.mean(1)).squeeze(1)


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Policy())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for length in WINDOWS:
        window = [torch.randint(32, (4, 6 + 2 * m + rank)) for m in range(length)]
        token_count = torch.tensor(float(sum(tokens[:, 1:].numel() for tokens in window)))
        dist.all_reduce(token_count)
        optimizer.zero_grad()
        for micro_batch, tokens in enumerate(window):
            last = micro_batch == len(window) - 1
            with contextlib.nullcontext() if last else model.no_sync():
                logits, values = model(tokens[:, :-1])
                loss = F.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="sum") * world_size / token_count
                value_loss = F.mse_loss(values, tokens.float().mean(1) / 32)
                if FIXED:
                    value_loss = value_loss / length
                (loss + VALUE_COEFFICIENT * value_loss).backward()
        optimizer.step()


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
