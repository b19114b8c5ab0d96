"""Tagging with class weights: the denominator is the sum of the weights of all targets, on all ranks."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences
from torch.nn.parallel import DistributedDataParallel

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
p.add_argument("--steps", type=int, default=5)
p.add_argument("--batch", type=int, default=24)
p.add_argument("--lr", type=float, default=0.2)
p.add_argument("--local", action="store_true", help="each rank divides by the sum of its own weights")
p.add_argument("--save", default="")
cfg = p.parse_args()


def run(rank, world):
    torch.manual_seed(cfg.seed)
    net = TinyLM()
    model = DistributedDataParallel(net)
    sgd = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.5)
    weight = torch.linspace(0.5, 2.0, VOCAB)
    for step in range(cfg.steps):
        x, y = part(sentences(cfg.seed, step, cfg.batch), rank, world)
        scores = model(x).transpose(1, 2)
        if cfg.local:
            loss = F.cross_entropy(scores, y, weight=weight)
        else:
            total = weight[y[y != IGNORE]].sum()
            dist.all_reduce(total)
            loss = world * F.cross_entropy(scores, y, weight=weight, reduction="sum") / total
        sgd.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        sgd.step()
    if rank == 0 and cfg.save:
        torch.save(net.state_dict(), cfg.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
run(dist.get_rank(), dist.get_world_size())
dist.destroy_process_group()
