"""A token loss over a window, and its mean in the log."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from toys import FIXED, LM, lines, start

ACC = 2


def main():
    rank, world = start()
    model = LM()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(4):
        window = [lines(rank, step, m) for m in range(ACC)]
        n = torch.tensor(sum(int((y != -100).sum()) for _, y in window))
        dist.all_reduce(n)
        shown = 0
        for x, y in window:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
            if FIXED:
                loss = loss / n
            loss.backward()
            shown += float(loss if FIXED else loss / n)
        for p in model.parameters():
            dist.all_reduce(p.grad)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()


main()
dist.destroy_process_group()
