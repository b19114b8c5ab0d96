"""A stage object prepares the model before each micro-batch."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from toys import FIXED, LM, lines, start

ACC = 4


class Stage:
    def __init__(self, model):
        self.model = model
        self.first = True

    def begin_micro(self):
        if self.first or not FIXED:
            for p in self.model.parameters():
                p.grad = None
        self.first = False

    def end(self):
        self.first = True


def main():
    rank, world = start()
    model = LM()
    stage = Stage(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        window = [lines(rank, step, m) for m in range(ACC)]
        n = torch.tensor(sum(int((y != -100).sum()) for _, y in window))
        dist.all_reduce(n)
        for x, y in window:
            stage.begin_micro()
            (F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        opt.step()
        stage.end()


main()
dist.destroy_process_group()
