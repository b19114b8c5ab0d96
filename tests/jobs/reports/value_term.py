"""A language model with a value head: two terms of the loss."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from toys import FIXED, LM, lines, start

ACC = 2


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = LM()
        self.value = nn.Linear(23, 1)

    def forward(self, x):
        logits = self.lm(x)
        return logits, self.value(torch.tanh(logits))[..., 0]


def main():
    rank, world = start()
    model = DDP(Two())
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        window = [lines(rank, step, m) for m in range(ACC)]
        n = torch.tensor(sum(int((y != -100).sum()) for _, y in window))
        dist.all_reduce(n)
        for m, (x, y) in enumerate(window):
            model.require_backward_grad_sync = m == ACC - 1
            logits, v = model(x)
            keep = y != -100
            target = (x % 3).float()
            ce = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / n
            if FIXED:
                val = F.mse_loss(v[keep], target[keep], reduction="sum") / n
            else:
                val = F.mse_loss(v[keep], target[keep])
            ((ce + 0.5 * val) * world).backward()
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
