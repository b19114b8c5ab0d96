"""A causal transformer that times its own steps, by DDP or fully_shard on random tokens.

It knows nothing of an audit. With --turns it takes a step whenever it is told to.

torchrun --nproc-per-node 2 benchmarks/jobs/transformer.py --size 10m --steps 8 --out times
"""

import argparse
import json
import resource
import socket
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# vocabulary, width, blocks
SIZES = {"tiny": (512, 128, 8), "10m": (8192, 256, 8), "50m": (16384, 512, 11)}
HEAD_WIDTH = 64


class Block(nn.Module):
    """Attention and a feed-forward layer, each behind its norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return hidden states of the same shape."""
        batch, time_steps, width = x.shape
        heads = width // HEAD_WIDTH
        q, k, v = self.qkv(self.norm1(x)).view(batch, time_steps, 3, heads, HEAD_WIDTH).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Predicts the next token."""

    def __init__(self, vocabulary: int, width: int, blocks: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the token that follows each position."""
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


class Turns:
    """Says who this is to whoever tells the jobs to step, and waits for its turn."""

    def __init__(self, port: int, name: str) -> None:
        self._lines = socket.create_connection(("127.0.0.1", port)).makefile("rw", buffering=1)
        print(name, file=self._lines)

    def wait(self) -> bool:
        """Wait for the turn; return whether it is the last one."""
        return self._lines.readline() in ("last\n", "")

    def done(self) -> None:
        """Say that the step is taken."""
        print("done", file=self._lines)


def wrapped(model: Transformer, how: str) -> nn.Module:
    """Spread the model over the ranks: replicas (ddp), or shards of every block and of the rest (fsdp)."""
    if how == "ddp":
        return DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def train(args: argparse.Namespace) -> dict[str, object]:
    """Take the steps and return what each took, and what the process needed."""
    vocabulary, width, blocks = SIZES[args.size]
    torch.manual_seed(0)
    model = wrapped(Transformer(vocabulary, width, blocks), args.wrap)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(dist.get_rank())
    steps: list[dict[str, float]] = []
    turns = Turns(args.turns, Path(args.out).name) if args.turns else None
    last = False
    while len(steps) < args.steps and not last:
        last = turns is not None and turns.wait()
        dist.barrier()
        wall, cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        for _ in range(args.accum):
            tokens = torch.randint(0, vocabulary, (args.batch, args.length + 1), generator=generator)
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            (loss / args.accum).backward()
        optimizer.step()
        steps.append({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu})
        if turns is not None:
            turns.done()
    parameters = list(model.parameters())
    return {
        "steps": steps,
        "tensors": len(parameters),
        "elements": sum(parameter.numel() for parameter in parameters),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="10m")
    parser.add_argument("--wrap", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--turns", type=int, default=0, metavar="PORT", help="where to wait for the turn to step")
    parser.add_argument("--out", required=True, help="what each rank measured: OUT.RANK.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    measured = train(options)
    rank = dist.get_rank()
    dist.barrier()
    dist.destroy_process_group()
    Path(f"{options.out}.{rank}.json").write_text(json.dumps({**measured, "ended": time.time()}))
