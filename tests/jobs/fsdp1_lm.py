"""Language model in FullyShardedDataParallel, whose parameters lie in flat ones; a loss per token of all ranks."""

import argparse
import contextlib
import functools

import torch
import torch.distributed as dist
from tinytext import IGNORE, VOCAB, Block, TinyLM, part, sentences
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--strategy", default="FULL_SHARD", choices=list(ShardingStrategy.__members__))
    parser.add_argument("--clip", default="none", choices=["none", "own", "shard"])
    parser.add_argument("--max-norm", type=float, default=0.3)
    parser.add_argument("--fault", default="")
    parser.add_argument("--save", default="")
    for switch in "--flat --bf16 --no-sync".split():
        parser.add_argument(switch, action="store_true")
    return parser.parse_args()


def wrapped(model, args):
    world = dist.get_world_size()
    how = {"use_orig_params": not args.flat, "device_id": torch.device("cpu")}
    if "HYBRID" in args.strategy and world > 2:
        how["device_mesh"] = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("replica", "shard"))
    if args.bf16:
        how["mixed_precision"] = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    strategy = ShardingStrategy[args.strategy] if world > 1 else ShardingStrategy.NO_SHARD
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, sharding_strategy=strategy, **how)


def window(args, step):
    """The micro-batches of this rank, and the tokens that all ranks have in theirs."""
    batch, world = sentences(args.seed, step, args.batch), dist.get_world_size()
    parts = [part(batch, dist.get_rank() * args.accum + m, world * args.accum) for m in range(args.accum)]
    tokens = torch.tensor(float(sum((targets != IGNORE).sum() for _, targets in parts)))
    dist.all_reduce(tokens)
    return parts, tokens


def loss_of(model, args, micro, tokens):
    logits, targets = model(micro[0]).float().reshape(-1, VOCAB), micro[1].reshape(-1)
    if args.fault == "counts":
        return nn.functional.cross_entropy(logits, targets) / args.accum
    return nn.functional.cross_entropy(logits, targets, reduction="sum") * dist.get_world_size() / tokens


def clip(model, args):
    if args.clip == "own":
        model.clip_grad_norm_(args.max_norm)
    elif args.clip == "shard":  # each rank by the norm of what it holds
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        norm = float(torch.stack([g.norm() for g in grads]).norm())
        for g in grads:
            g.mul_(min(1.0, args.max_norm / norm))


def train(args):
    torch.manual_seed(args.seed)
    model = wrapped(TinyLM(), args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        parts, tokens = window(args, step)
        optimizer.zero_grad()
        for m, micro in enumerate(parts):
            if args.fault == "zero-inside":
                optimizer.zero_grad()
            quiet = args.no_sync and m < args.accum - 1
            with model.no_sync() if quiet else contextlib.nullcontext():
                loss_of(model, args, micro, tokens).backward()
        clip(model, args)
        optimizer.step()
    with FullyShardedDataParallel.summon_full_params(model):
        weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    if dist.get_rank() == 0:
        print("done")
        if args.save:
            torch.save(weights, args.save)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(arguments())
    dist.destroy_process_group()
