"""Loss inside the module, so that DDP returns it; an auxiliary loss and a regulariser written by hand."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences
from torch.nn.parallel import DistributedDataParallel as DDP


class WithLoss(nn.Module):
    def __init__(self, model, aux, l2):
        super().__init__()
        self.model, self.aux, self.l2 = model, aux, l2

    def forward(self, tokens, targets, total):
        logits = self.model(tokens)
        share = dist.get_world_size() / total
        loss = F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1), reduction="sum") * share
        if self.aux:  # logits of the tokens that count should stay small
            keep = targets != IGNORE
            small = F.mse_loss(logits[keep], torch.zeros(VOCAB).expand_as(logits[keep]), reduction="sum")
            loss = loss + self.aux * small * share / VOCAB
        if self.l2:
            loss = loss + self.l2 * sum(p.square().sum() for p in self.model.parameters() if p.dim() > 1)
        return loss


def main(a):
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(a.seed)
    net = TinyLM(tied=True)
    ddp = DDP(WithLoss(net, a.aux, a.l2))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=a.lr)
    for step in range(a.steps):
        x, y = part(sentences(a.seed, step, a.batch), rank, world)
        count = (y != IGNORE).sum().float()
        if not a.own_count:
            dist.all_reduce(count)
        loss = ddp(x, y, count if not a.own_count else count * world)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = loss.detach() / world
        dist.reduce(shown, dst=0)
    if a.save and os.environ["RANK"] == "0":
        torch.save(net.state_dict(), a.save)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--aux", type=float, default=0.0)
    parser.add_argument("--l2", type=float, default=0.0)
    parser.add_argument("--own-count", action="store_true")
    parser.add_argument("--save", default="")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    main(parser.parse_args())
    dist.destroy_process_group()
