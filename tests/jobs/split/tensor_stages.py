"""Two pipeline stages of two ranks each, which hold the layers of a stage together by tensor parallelism."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

parser = argparse.ArgumentParser()
parser.add_argument("--uneven", action="store_true", help="micro-batches have other numbers of tokens")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()


class Stage(nn.Module):
    """A part of a token model."""

    def __init__(self, is_first):
        super().__init__()
        self.embed = nn.Embedding(23, 16) if is_first else None
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = None if is_first else nn.Linear(16, 23)

    def forward(self, x):
        x = self.embed(x) if self.embed else x
        x = x + self.down(torch.tanh(self.up(x)))
        return self.head(x) if self.head else x


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
    place = mesh.get_coordinate()[0]
    torch.manual_seed(10 * args.seed + place)
    model = Stage(place == 0)
    parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    stage = PipelineStage(model, place, 2, torch.device("cpu"), group=mesh.get_group("pp"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=loss_of)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
    for step in range(4):
        made = torch.Generator().manual_seed(1000 * args.seed + step)
        tokens = torch.randint(0, 23, (8, 10), generator=made)
        labels = tokens.roll(-1, 1)
        if args.uneven:
            labels[:3, 4:] = -100
        optimizer.zero_grad()
        if place == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=labels)
        optimizer.step()


main()
dist.destroy_process_group()
