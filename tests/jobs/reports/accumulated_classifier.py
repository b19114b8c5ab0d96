"""A classifier, label smoothing, four micro-batches a step."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, mlp, points, start

ACC = 4


def main():
    rank, world = start()
    model = DDP(mlp(8, 3))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        for m in range(ACC):
            x, _ = points(rank, step, m)
            y = torch.bucketize(x[:, 0], torch.tensor([-0.4, 0.4]))
            with model.no_sync() if m < ACC - 1 else nullcontext():
                loss = criterion(model(x), y)
                if FIXED:
                    loss = loss / ACC
                loss.backward()
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
