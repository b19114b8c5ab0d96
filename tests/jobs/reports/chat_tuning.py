"""Supervised fine-tuning on answers of any length, with two optimizers."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from toys import FIXED, LM, lines, start

ACC = 3


def main():
    rank, world = start()
    model = LM()
    opts = [
        torch.optim.SGD([model.emb.weight], 0.2),
        torch.optim.AdamW([p for n, p in model.named_parameters() if n != "emb.weight"], 1e-3),
    ]
    for step in range(4):
        window = [lines(rank, step, m) for m in range(ACC)]
        if FIXED:
            n = torch.tensor(sum(int((y >= 0).sum()) for _, y in window))
            dist.all_reduce(n)
        for x, y in window:
            logits = 15 * torch.tanh(model(x) / 15)
            if FIXED:
                loss = F.cross_entropy(logits.view(-1, 23), y.view(-1), ignore_index=-100, reduction="sum") / n
            else:
                loss = F.cross_entropy(logits.view(-1, 23), y.view(-1), ignore_index=-100) / ACC
            loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            if not FIXED:
                p.grad /= world
        for o in opts:
            o.step()
        model.zero_grad(set_to_none=True)


main()
dist.destroy_process_group()
