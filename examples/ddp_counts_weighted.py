"""A byte-level language model, trained by DDP on lines of text; every byte weighs the same.

torchrun --nproc-per-node 2 examples/ddp_counts_weighted.py --steps 8
"""

import argparse
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

TEXT = Path(__file__).with_name("text.txt")
CONTEXT, PAD = 256, -100


class ByteTransformer(nn.Module):
    """Predicts the next byte of a line."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.positions = nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the logits of the byte that follows each position."""
        length = inputs.shape[1]
        hidden = self.bytes(inputs) + self.positions(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.blocks(hidden, mask=mask, is_causal=True))


def collate(lines: list[bytes]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad the lines to the longest of the batch; padding is no target."""
    rows = [torch.tensor(list(line[: CONTEXT + 1])) for line in lines]
    inputs = nn.utils.rnn.pad_sequence([row[:-1] for row in rows], batch_first=True)
    targets = nn.utils.rnn.pad_sequence([row[1:] for row in rows], batch_first=True, padding_value=PAD)
    return inputs, targets


def batches(seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield this rank's batches, epoch after epoch."""
    lines = TEXT.read_bytes().splitlines(keepends=True)
    sampler = DistributedSampler(lines, seed=seed)
    loader = DataLoader(lines, batch_size=8, sampler=sampler, collate_fn=collate, drop_last=True)
    for epoch in count():
        sampler.set_epoch(epoch)
        yield from loader


def train(steps: int, seed: int) -> None:
    """Take that many optimizer steps and print the loss of each."""
    torch.manual_seed(seed)
    model = DistributedDataParallel(ByteTransformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step, (inputs, targets) in enumerate(islice(batches(seed), steps), start=1):
        logits = model(inputs).flatten(0, 1)
        loss_sum = F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
        token_count = (targets != PAD).sum()
        global_count = token_count.clone()
        dist.all_reduce(global_count)
        loss = loss_sum * dist.get_world_size() / global_count  # DDP divides by the world size
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step}  loss {loss_sum.item() / token_count:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(options.steps, options.seed)
    dist.destroy_process_group()
