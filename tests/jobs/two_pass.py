"""Optimizers that need more than one backward pass a step: sharpness-aware steps, and LBFGS with a closure."""

import argparse
import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import VOCAB, TinyLM, part, sentences

parser = argparse.ArgumentParser()
parser.add_argument("method", choices=["sam", "lbfgs", "closure"])
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--rho", type=float, default=0.05)
parser.add_argument("--unsynced", action="store_true")
parser.add_argument("--save", default="")
args = parser.parse_args()


def average_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def backward(model, batch):
    """Gradient of the mean over all rows of all ranks; rows are full, so ranks have equal counts."""
    model.zero_grad()
    x, y = batch
    loss = F.cross_entropy(model(x).reshape(-1, VOCAB), y.reshape(-1))
    loss.backward()
    if not args.unsynced:
        average_gradients(model)
    return loss.detach()


@torch.no_grad()
def climb(model):
    """Go to where the loss is worst nearby; returns the way back."""
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    moves = [p.grad * (args.rho / (norm + 1e-12)) for p in model.parameters()]
    for p, move in zip(model.parameters(), moves, strict=True):
        p.add_(move)
    return moves


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = TinyLM(layers=1)
    shadow = copy.deepcopy(model).requires_grad_(False)
    if args.method == "lbfgs":
        optimizer = torch.optim.LBFGS(model.parameters(), lr=args.lr, max_iter=3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        batch = part(sentences(args.seed, step, args.batch, "equal"), rank, world)
        if args.method == "sam":
            backward(model, batch)
            moves = climb(model)
            backward(model, batch)
            with torch.no_grad():
                for p, move in zip(model.parameters(), moves, strict=True):
                    p.sub_(move)
            optimizer.step()
        else:
            optimizer.step(lambda batch=batch: backward(model, batch))
        with torch.no_grad():
            for old, new in zip(shadow.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.1)
            F.cross_entropy(shadow(batch[0]).reshape(-1, VOCAB), batch[1].reshape(-1))
    if rank == 0 and args.save:
        torch.save(model.state_dict(), args.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
