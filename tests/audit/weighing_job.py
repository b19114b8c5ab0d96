"""A job of two ranks whose losses can be divided in several ways; it saves every update that the optimizer steps on."""

import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, WIDTH, LENGTH = 64, 24, 9
IGNORED = -100


class Model(nn.Module):
    """Predicts a token from the one before it and a running mean of all before."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.hidden = nn.Linear(2 * WIDTH, 2 * WIDTH)
        self.head = nn.Linear(2 * WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        past = x.cumsum(1) / torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[None, :, None]
        return self.head(torch.tanh(self.hidden(torch.cat([x, past], -1))))


def batch(step, rank, micro_batch):
    """Two rows of varying length: inputs, and targets of which the padding is ignored."""
    generator = torch.Generator().manual_seed(1000 * step + 10 * rank + micro_batch)
    tokens = torch.randint(0, VOCABULARY, (2, LENGTH + 1), generator=generator)
    targets = tokens[:, 1:].clone()
    for row in targets:
        row[int(torch.randint(2, LENGTH + 1, (1,), generator=generator)) :] = IGNORED
    return tokens[:, :-1], targets


def loss_of(logits, targets, args, total):
    """This rank's loss of one micro-batch, divided as the form says."""
    logits, targets = logits.flatten(0, 1), targets.flatten()
    if args.form == "weighted":
        return F.cross_entropy(logits, targets, reduction="sum") * dist.get_world_size() / total
    if args.form == "unreduced":
        each = F.cross_entropy(logits, targets, reduction="none")
        return each.sum() / (targets != IGNORED).sum() / args.accum
    return F.cross_entropy(logits, targets) / (1 if args.form == "summed" else args.accum)


def train(args):
    torch.manual_seed(3)
    rank = dist.get_rank()
    model = Model().to(getattr(torch, args.dtype))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    saved = []
    for step in range(args.steps):
        window = [batch(step, rank, micro_batch) for micro_batch in range(args.accum)]
        total = torch.tensor(float(sum((targets != IGNORED).sum() for _, targets in window)))
        dist.all_reduce(total)
        optimizer.zero_grad()
        for micro_batch, (inputs, targets) in enumerate(window):
            with ddp.no_sync() if micro_batch + 1 < args.accum else contextlib.nullcontext():
                loss_of(ddp(inputs), targets, args, total).backward()
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        saved.append({"weights": weights, "update": {n: p.grad.clone() for n, p in model.named_parameters()}})
        optimizer.step()
    if rank == 0:
        torch.save(saved, args.save)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", choices=["means", "summed", "weighted", "unreduced"], required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--save", required=True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(parser.parse_args())
    dist.destroy_process_group()
