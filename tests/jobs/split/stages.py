"""Pipeline stages under a schedule of torch.distributed.pipelining, four micro-batches a step; replicas of each stage.

Ranks stand as replicas by stages: with two replicas, ranks 0 and 1 run the one pipeline, 2 and 3 the other.
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

VOCAB, WIDTH, MICRO_BATCHES = 23, 16, 4
SCHEDULES = {
    "gpipe": (schedules.ScheduleGPipe, 1),
    "1f1b": (schedules.Schedule1F1B, 1),
    "interleaved": (schedules.ScheduleInterleaved1F1B, 2),
    "breadth-first": (schedules.ScheduleLoopedBFS, 2),
    "zero-bubble": (schedules.ScheduleInterleavedZeroBubble, 1),
    "interleaved-zero-bubble": (schedules.ScheduleInterleavedZeroBubble, 2),
    "v": (schedules.ScheduleZBVZeroBubble, 2),
    "dual-v": (schedules.ScheduleDualPipeV, 2),
}

parser = argparse.ArgumentParser()
parser.add_argument("--schedule", default="gpipe", choices=SCHEDULES)
parser.add_argument("--replicas", default="", choices=["", "hand", "ddp", "fsdp"])
parser.add_argument("--loss", default="means", choices=["means", "exact"], help="exact: over the tokens of all")
parser.add_argument("--lengths", default="equal", choices=["equal", "uneven"])
parser.add_argument("--fault", default="", choices=["", "unscaled", "one-stage", "tied", "clip", "eval"])
parser.add_argument("--tied", default="", choices=["", "broadcast", "built", "seed"], help="the embedding is the head")
parser.add_argument("--clip", type=float, default=0.0)
parser.add_argument("--rounds", type=int, default=1, help="runs of the schedule before each step")
parser.add_argument("--optimizer", default="one", choices=["one", "each"], help="each: one for every stage")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--save", default="")
args = parser.parse_args()


class Model(nn.Module):
    """A token model; a stage keeps a part of it."""

    def __init__(self, depth):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleDict({str(number): nn.Linear(WIDTH, WIDTH) for number in range(depth)})
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        if args.tied == "built":
            self.head.weight = self.tokens.weight

    def forward(self, x):
        x = self.tokens(x) if self.tokens else x
        for layer in self.layers.values():
            x = torch.tanh(layer(x)) + x
        return self.head(x) if self.head else x


def part_of(depth, index, count):
    """One stage of the model, which all ranks draw alike."""
    torch.manual_seed(args.seed)
    model = Model(depth)
    size = depth // count
    for number in range(depth):
        if not index * size <= number < (index + 1) * size:
            del model.layers[str(number)]
    if index > 0:
        model.tokens = None
    if index < count - 1:
        model.head = None
    return model


def tie(stages, rank, group):
    """Gives the first and the last stage the same weight."""
    first = next((stage.tokens.weight for stage in stages if stage.tokens), None)
    last = next((stage.head.weight for stage in stages if stage.head), None)
    held = first if last is None else last
    if args.tied == "broadcast" and held is not None and group is not None:
        dist.broadcast(held.data, dist.get_global_rank(group, 0), group=group)
    elif args.tied == "seed" and held is not None:
        torch.manual_seed(args.seed)
        nn.init.normal_(held, std=0.3)
    return held


def replica_of(part, group):
    # the stage finds its shapes by a backward of its own, after which DDP can't rebuild its buckets
    return DistributedDataParallel(part, process_group=group, find_unused_parameters=True)


def batch(step, replica):
    made = torch.Generator().manual_seed(100_000 * args.seed + 100 * step + replica)
    tokens = torch.randint(0, VOCAB, (8, 10), generator=made)
    labels = tokens.roll(-1, 1)
    if args.lengths == "uneven":
        lengths = torch.randint(2, 11, (8,), generator=made)
        labels[torch.arange(10) >= lengths[:, None]] = -100
    return tokens, labels


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    kind, each = SCHEDULES[args.schedule]
    replicas = 2 if args.replicas else 1
    mesh = init_device_mesh("cpu", (replicas, dist.get_world_size() // replicas), mesh_dim_names=("dp", "pp"))
    (replica, rank), size = mesh.get_coordinate(), mesh["pp"].size()
    count = each * size
    mine = [rank + size * turn for turn in range(each)]
    if args.schedule in ("v", "dual-v"):
        mine = [rank, count - 1 - rank]
    parts = [part_of(4, index, count) for index in mine]
    held = tie(parts, rank, mesh.get_group("pp")) if args.tied else None
    wrapped = parts
    if args.replicas == "ddp":
        wrapped = [replica_of(part, mesh.get_group("dp")) for part in parts]
    elif args.replicas == "fsdp":
        wrapped = [fully_shard(part, mesh=mesh["dp"]) for part in parts]
    stages = [
        PipelineStage(part, index, count, torch.device("cpu"), group=mesh.get_group("pp"))
        for part, index in zip(wrapped, mine, strict=True)
    ]
    total = torch.ones(())

    def loss_of(logits, labels):
        if args.loss == "means":
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") * replicas / total

    schedule = kind(
        stages[0] if each == 1 and args.schedule != "zero-bubble" else stages,
        n_microbatches=MICRO_BATCHES,
        loss_fn=loss_of,
        scale_grads=args.loss == "means" and args.fault != "unscaled",
    )
    groups = [list(part.parameters()) for part in parts]
    groups = groups if args.optimizer == "each" else [[parameter for group in groups for parameter in group]]
    optimizers = [torch.optim.SGD(group, 0.1) for group in groups]
    for step in range(args.steps):
        batches = [batch(step * args.rounds + turn, replica) for turn in range(args.rounds)]
        total.copy_(sum((labels != -100).sum() for _, labels in batches))
        dist.all_reduce(total)
        total /= size
        for tokens, labels in batches:
            first = [tokens] if 0 in mine else []
            schedule.step(*first, **({"target": labels} if count - 1 in mine else {}))
            if args.fault == "eval":
                schedule.eval(*first, **({"target": labels} if count - 1 in mine else {}))
        for part in parts:
            reduce(part, mesh, 0 in mine)
        if held is not None and args.fault != "tied":
            dist.all_reduce(held.grad, group=mesh.get_group("pp"))
        if args.clip:
            clip(parts, mesh)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    if args.save:
        save({name: p for part in parts for name, p in part.named_parameters()})


def reduce(part, mesh, is_first):
    """Averages over the replicas, by hand."""
    for parameter in part.parameters():
        if args.rounds > 1 and args.loss == "means":
            parameter.grad /= args.rounds
        if args.replicas == "hand" and not (args.fault == "one-stage" and is_first):
            dist.all_reduce(parameter.grad, group=mesh.get_group("dp"))
            parameter.grad /= mesh["dp"].size()


def save(held):
    """Saves the weights of all ranks."""
    mine = {f"rank {dist.get_rank()} {name}": p.detach() for name, p in held.items()}
    found = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(mine, found)
    if found:
        torch.save({name: p for weights in found for name, p in weights.items()}, args.save)


def clip(parts, mesh):
    """Clips by the norm of the whole gradient."""
    parameters = [parameter for part in parts for parameter in part.parameters()]
    norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters])
    norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
    if args.fault != "clip":
        norm = norm**2
        dist.all_reduce(norm, group=mesh.get_group("pp"))
        norm = norm.sqrt()
    nn.utils.clip_grads_with_norm_(parameters, args.clip, norm)


main()
dist.destroy_process_group()
