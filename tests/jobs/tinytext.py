"""A small causal transformer, and sentences of varying length. Several of the training scripts import them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

VOCAB = 128
IGNORE = -100


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.mlp(self.norm2(x))


class Body(nn.Module):
    """Everything but the head."""

    def __init__(self, width=32, layers=2, max_length=64, checkpointing=False):
        super().__init__()
        self.checkpointing = checkpointing
        self.token = nn.Embedding(VOCAB, width)
        self.position = nn.Embedding(max_length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x)
        return self.norm(x)


class TinyLM(nn.Module):
    def __init__(self, width=32, layers=2, tied=False, checkpointing=False, unused=False):
        super().__init__()
        self.body = Body(width, layers, checkpointing=checkpointing)
        self.head = nn.Linear(width, VOCAB)
        if tied:
            self.head.weight = self.body.token.weight
        if unused:
            self.pooler = nn.Linear(width, width)

    def forward(self, tokens):
        return self.head(self.body(tokens))


def sentences(seed, step, size, lengths="varied", max_length=32):
    """The global batch of one step: tokens and next tokens, padded with IGNORE. The same on every rank."""
    generator = torch.Generator().manual_seed(seed * 100_003 + step)
    if lengths == "skew2":
        max_length = 51
    text = torch.randint(0, VOCAB, (size, max_length + 1), generator=generator)
    for t in range(1, max_length + 1):
        follow = torch.rand(size, generator=generator) < 0.6
        text[:, t] = torch.where(follow, (text[:, t - 1] * 5 + 3) % VOCAB, text[:, t])
    inputs, targets = text[:, :-1].contiguous(), text[:, 1:].clone()
    keep = torch.full((size,), max_length)
    if lengths in ("varied", "emptyhalf"):
        keep = (max_length * torch.rand(size, generator=generator) ** 2).long().clamp(min=3)
    if lengths == "emptyhalf":
        keep[size // 2 :] = 0
    if lengths == "skew2":
        keep[: size // 2] = 50
    targets[torch.arange(max_length)[None] >= keep[:, None]] = IGNORE
    return inputs, targets


def part(batch, index, parts):
    """Rows of `batch` that the index-th of `parts` workers reads."""
    inputs, targets = batch
    rows = inputs.shape[0] // parts
    assert rows * parts == inputs.shape[0], f"{inputs.shape[0]} rows cannot be split in {parts}"
    return inputs[index * rows : (index + 1) * rows], targets[index * rows : (index + 1) * rows]
