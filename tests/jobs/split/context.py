"""Each rank holds a chunk of every sequence; keys and values are gathered for causal attention.

On four ranks there are two such pairs, each with data of its own.
"""

import argparse

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--averaged", action="store_true", help="gradients of the chunks are averaged, not added up")
parser.add_argument("--detached", action="store_true", help="keys and values of other ranks carry no gradient back")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
CHUNKS, WIDTH, VOCAB, LENGTH = 2, 16, 23, 12


def gathered(part, group):
    """The parts of all chunks, in order."""
    if not args.detached:
        return torch.cat(funcol.all_gather_single_autograd(part, 0, group).chunk(CHUNKS), 1)
    parts = [torch.empty_like(part) for _ in range(CHUNKS)]
    dist.all_gather(parts, part, group=group)
    parts[dist.get_rank(group)] = part
    return torch.cat(parts, 1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens, group):
        hidden = self.token(tokens)
        keys, values = gathered(self.key(hidden), group), gathered(self.value(hidden), group)
        first = dist.get_rank(group) * tokens.shape[1]
        here = torch.arange(first, first + tokens.shape[1])
        seen = here[:, None] >= torch.arange(keys.shape[1])[None]
        mixed = F.scaled_dot_product_attention(self.query(hidden), keys, values, attn_mask=seen)
        return self.head(self.norm(hidden + mixed))


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(first, first + CHUNKS))) for first in range(0, world, CHUNKS)]
    group = groups[rank // CHUNKS]
    torch.manual_seed(args.seed)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    for step in range(5):
        made = torch.Generator().manual_seed(1000 * args.seed + 10 * step + rank // CHUNKS)
        tokens = torch.randint(0, VOCAB, (3, LENGTH), generator=made)
        labels = tokens.roll(-1, 1)
        labels[:, -1 - rank // CHUNKS * 4 :] = -100
        count = (labels != -100).sum()
        dist.all_reduce(count)
        count = count / CHUNKS  # every chunk's rank has counted the whole sequence
        chunk = slice(rank % CHUNKS * LENGTH // CHUNKS, (rank % CHUNKS + 1) * LENGTH // CHUNKS)
        logits = model(tokens[:, chunk], group)
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, chunk].flatten(), reduction="sum") / count
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            if args.averaged:
                parameter.grad /= CHUNKS
        optimizer.step()


main()
dist.destroy_process_group()
