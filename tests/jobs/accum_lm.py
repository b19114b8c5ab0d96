"""Language model on one process, with gradient accumulation. Written as one function after another."""

import argparse

import torch
import torch.nn.functional as F
from tinytext import IGNORE, VOCAB, TinyLM, part, sentences


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--accum", type=int, default=4)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--lr", type=float, default=0.2)
    p.add_argument("--lengths", default="varied")
    p.add_argument("--dtype", default="float32")
    p.add_argument("--clip", type=float, default=0.0)
    p.add_argument("--skip", type=int, default=-1, help="a step that is left out")
    p.add_argument("--fault", default="")
    p.add_argument("--save", default="")
    return p.parse_args()


def micro_loss(logits, targets, tokens, cfg):
    logits, targets = logits.float().flatten(0, 1), targets.flatten()
    if cfg.fault == "means":
        return F.cross_entropy(logits, targets) / cfg.accum
    if cfg.fault == "window-sum":
        return F.cross_entropy(logits, targets)
    if cfg.fault == "mean-twice":
        return F.cross_entropy(logits, targets) / cfg.accum / cfg.accum
    total = F.cross_entropy(logits, targets, reduction="sum")
    return total / tokens / (cfg.accum if cfg.fault == "divided-twice" else 1)


def accumulate(model, optimizer, parts, cfg):
    """Backward passes of one window; the gradients are left in .grad."""
    tokens = sum((targets != IGNORE).sum() for _, targets in parts)
    kept = None
    for inputs, targets in parts:
        if cfg.fault == "last-only":
            optimizer.zero_grad()
        logits = model(inputs)
        assert logits.shape[-1] == VOCAB
        micro_loss(logits, targets, tokens, cfg).backward()
        if cfg.fault == "clip-each":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        if cfg.fault == "first-only" and kept is None:  # the buffer is filled once and never added to
            kept = [p.grad.clone() for p in model.parameters()]
    for p, grad in zip(model.parameters(), kept or [], strict=False):
        p.grad = grad


def main():
    cfg = parse()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    model = TinyLM().to(getattr(torch, cfg.dtype))
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    before = None
    for step in range(cfg.steps):
        batch = sentences(cfg.seed, step, cfg.batch, cfg.lengths)
        parts = [part(batch, m, cfg.accum) for m in range(cfg.accum)]
        if cfg.fault != "no-zero":
            optimizer.zero_grad()
        accumulate(model, optimizer, parts, cfg)
        if step == cfg.skip:
            continue
        if cfg.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        if cfg.fault == "delayed":
            now = [p.grad.clone() for p in model.parameters()]
            for p, g in zip(model.parameters(), before or now, strict=True):
                p.grad = g.clone()
            before = now
        optimizer.step()
    print(
        "loss of the last step's first rows",
        float(F.cross_entropy(model(parts[0][0]).flatten(0, 1).float(), parts[0][1].flatten())),
    )
    if cfg.save:
        torch.save(model.state_dict(), cfg.save)


if __name__ == "__main__":
    main()
