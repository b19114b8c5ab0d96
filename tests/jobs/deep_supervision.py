"""Deep supervision (as in GoogLeNet): two heads inside the network learn the same targets; class weights."""

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--save", default="")
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high = nn.Linear(6, 32), nn.Linear(32, 32)
        self.head, self.low_head, self.high_head = nn.Linear(32, 3), nn.Linear(32, 3), nn.Linear(32, 3)

    def forward(self, x):
        low = self.low(x).relu()
        high = self.high(low).relu()
        return self.head(high), self.low_head(low), self.high_head(high)


torch.set_num_threads(1)
torch.manual_seed(args.seed)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))
for step in range(args.steps):
    size = args.batch if step + 1 < args.steps else args.batch - 5  # the last batch of an epoch is smaller
    x, y = torch.randn(size, 6), torch.randint(0, 3, (size,))
    out, low, high = net(x)
    loss = criterion(out, y) + 0.3 * (criterion(low, y) + criterion(high, y))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if args.save:
    torch.save(net.state_dict(), args.save)
