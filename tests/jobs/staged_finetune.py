"""Fine-tuning in stages: the body is frozen at first, then thawed; two parameter groups, EMA weights, GradScaler."""

import argparse
import copy
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences
from torch.nn.parallel import DistributedDataParallel as DDP

cli = argparse.ArgumentParser()
cli.add_argument("--seed", type=int, default=0)
cli.add_argument("--steps", type=int, default=6)
cli.add_argument("--batch", type=int, default=24)
cli.add_argument("--lr", type=float, default=0.2)
cli.add_argument("--accum", type=int, default=1)
cli.add_argument("--manual", action="store_true", help="all_reduce by hand instead of DDP")
cli.add_argument("--late-group", action="store_true", help="thawed parameters are forgotten by the all_reduce")
cli.add_argument("--save", default="")
opts = cli.parse_args()


def set_frozen(module, frozen):
    for p in module.parameters():
        p.requires_grad_(not frozen)


def step_loss(model, inputs, targets, count, world):
    logits = model(inputs)
    keep = targets != IGNORE
    return F.cross_entropy(logits[keep], targets[keep], reduction="sum") / count * world


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(opts.seed)
    net = TinyLM()
    net.head.bias.register_hook(lambda grad: grad * (torch.arange(VOCAB) > 3))  # special tokens keep their bias
    ema = copy.deepcopy(net)
    set_frozen(net.body, True)
    model = net if opts.manual else DDP(net)
    optimizer = torch.optim.SGD([{"params": net.head.parameters(), "lr": opts.lr}], lr=opts.lr, momentum=0.8)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
    reduced = list(net.head.parameters())
    for step in range(opts.steps):
        if step == opts.steps // 2:
            set_frozen(net.body, False)
            optimizer.add_param_group({"params": net.body.parameters(), "lr": opts.lr / 2})
            if not opts.manual:
                model = DDP(net)  # DDP decides at construction what it reduces
            elif not opts.late_group:
                reduced = list(net.parameters())
        batch = sentences(opts.seed, step, opts.batch)
        micro = [part(batch, rank * opts.accum + m, world * opts.accum) for m in range(opts.accum)]
        count = torch.tensor(float(sum((t != IGNORE).sum() for _, t in micro)))
        dist.all_reduce(count)
        for inputs, targets in micro:
            scaler.scale(step_loss(model, inputs, targets, count, world)).backward()
        if opts.manual:
            for p in reduced:
                dist.all_reduce(p.grad)
                p.grad /= world
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_([p for p in net.parameters() if p.grad is not None], 2.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        with torch.no_grad():
            for slow, fast in zip(ema.parameters(), net.parameters(), strict=True):
                slow.mul_(0.9).add_(fast, alpha=0.1)
    if opts.save and os.environ["RANK"] == "0":
        torch.save(net.state_dict(), opts.save)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    main()
    dist.destroy_process_group()
