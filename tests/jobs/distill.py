"""Knowledge distillation: a student learns a teacher's soft targets (KL) beside the labels (cross entropy)."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--temperature", type=float, default=4.0)
parser.add_argument("--alpha", type=float, default=0.7)
parser.add_argument("--uneven", action="store_true", help="the first rank reads twice as much, and means are averaged")
parser.add_argument("--save", default="")
args = parser.parse_args()


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    teacher = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 5)).eval()
    student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
    ddp = DDP(student)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=args.lr)
    soft = nn.KLDivLoss(reduction="batchmean")
    data = torch.Generator().manual_seed(args.seed + 1)
    sizes = [args.batch // world] * world
    if args.uneven:
        sizes = [args.batch - args.batch // 3, args.batch // 3]
    hot, alpha = args.temperature, args.alpha
    for _ in range(args.steps):
        x = torch.randn(args.batch, 8, generator=data).split(sizes)[rank]
        y = torch.randint(0, 5, (args.batch,), generator=data).split(sizes)[rank]
        with torch.no_grad():
            wanted = F.softmax(teacher(x) / hot, dim=1)
        logits = ddp(x)
        distilled = soft(F.log_softmax(logits / hot, dim=1), wanted) * alpha * hot**2
        loss = distilled + (1 - alpha) * F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0 and args.save:
        torch.save(student.state_dict(), args.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
