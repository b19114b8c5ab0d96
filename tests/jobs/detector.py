"""A detector (as DETR): sums over the boxes found, classes and corners, divided by the boxes of all ranks."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--images", type=int, default=6)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--own-boxes", action="store_true", help="each rank divides by its own boxes")
parser.add_argument("--save", default="")
args = parser.parse_args()

QUERIES, CLASSES = 20, 4


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 32)
        self.classes = nn.Linear(32, CLASSES)
        self.corners = nn.Linear(32, 4)

    def forward(self, x):
        hidden = F.relu(self.body(x))
        return self.classes(hidden), self.corners(hidden)


def images(step):
    """Queries of all ranks, which of them match a box, and the boxes. The later images are fuller."""
    data = torch.Generator().manual_seed(args.seed * 1009 + step)
    queries = torch.randn(args.images, QUERIES, 10, generator=data)
    fullness = torch.linspace(0.1, 0.7, args.images)[:, None]
    matched = torch.rand(args.images, QUERIES, generator=data) < fullness
    kinds = torch.randint(0, CLASSES, (args.images, QUERIES), generator=data)
    return queries, matched, kinds, torch.randn(args.images, QUERIES, 4, generator=data)


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    net = Detector()
    ddp = DDP(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=args.lr)
    for step in range(args.steps):
        queries, matched, kinds, boxes = (tensor.chunk(world)[rank] for tensor in images(step))
        box_count = matched.sum().float()
        if not args.own_boxes:
            dist.all_reduce(box_count)
            box_count = box_count / world
        box_count = box_count.clamp(min=1)
        classes, corners = ddp(queries)
        losses = {
            "classes": F.cross_entropy(classes[matched], kinds[matched], reduction="sum") / box_count,
            "corners": F.smooth_l1_loss(corners[matched], boxes[matched], reduction="sum") / box_count,
        }
        weights = {"classes": 1.0, "corners": 5.0}
        optimizer.zero_grad()
        sum(weights[name] * loss for name, loss in losses.items()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    if rank == 0 and args.save:
        torch.save(net.state_dict(), args.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
