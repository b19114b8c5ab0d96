"""Click prediction on sparse embeddings."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from toys import FIXED, mlp, start


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(30, 8, sparse=True, mode="sum")
        self.top = mlp(8, 1)

    def forward(self, ids):
        return self.top(self.emb(ids))


def main():
    rank, world = start()
    net = Net()
    opts = [torch.optim.SGD(net.emb.parameters(), 0.1), torch.optim.SGD(net.top.parameters(), 0.1)]
    for step in range(5):
        g = torch.Generator().manual_seed(step * 10 + rank)
        ids = torch.randint(0, 30, (8, 4), generator=g)
        click = torch.randint(0, 2, (8, 1), generator=g).float()
        F.binary_cross_entropy_with_logits(net(ids), click).backward()
        for p in net.parameters():
            grad = p.grad
            if grad.is_sparse:
                grad = grad.coalesce()
                dist.all_reduce(grad)
                p.grad = grad / world if FIXED else grad
            else:
                dist.all_reduce(grad)
                grad.div_(world)
        for o in opts:
            o.step()
            o.zero_grad()


main()
dist.destroy_process_group()
