"""Two pipeline stages under a schedule of torch.distributed.pipelining, four micro-batches a step."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

parser = argparse.ArgumentParser()
parser.add_argument("--schedule", default="gpipe", choices=["gpipe", "1f1b"])
parser.add_argument("--unscaled", action="store_true", help="gradients are not divided by the micro-batches")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    stages = [
        nn.Sequential(nn.Embedding(23, 16), nn.Linear(16, 16), nn.Tanh()),
        nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 23)),
    ]
    model = stages[rank]
    stage = PipelineStage(model, rank, world, torch.device("cpu"))
    kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[args.schedule]
    schedule = kind(stage, n_microbatches=4, loss_fn=loss_of, scale_grads=not args.unscaled)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        made = torch.Generator().manual_seed(1000 * args.seed + step)
        tokens = torch.randint(0, 23, (8, 10), generator=made)
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=tokens.roll(-1, 1))
        optimizer.step()


main()
dist.destroy_process_group()
