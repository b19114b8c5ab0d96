"""A recurrent language model by truncated backpropagation: the hidden state is carried over and detached."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--bptt", type=int, default=8)
parser.add_argument("--lr", type=float, default=0.5)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--wait", action="store_true", help="forget zero_grad every other time")
parser.add_argument("--save", default="")
args = parser.parse_args()

VOCAB, WIDTH, LAYERS = 40, 16, 2


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(VOCAB, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, LAYERS)
        self.decoder = nn.Linear(WIDTH, VOCAB)
        self.decoder.weight = self.encoder.weight

    def forward(self, tokens, hidden):
        out, hidden = self.rnn(self.encoder(tokens), hidden)
        return torch.log_softmax(self.decoder(out).view(-1, VOCAB), dim=1), hidden


def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = RNNModel()
    ddp = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    criterion = nn.NLLLoss()
    length = args.bptt * args.steps - args.bptt // 2 + 1  # the last piece is shorter
    columns = torch.randint(0, VOCAB, (length, args.batch), generator=torch.Generator().manual_seed(args.seed + 1))
    text = columns.chunk(world, dim=1)[rank]
    hidden = tuple(torch.zeros(LAYERS, text.shape[1], WIDTH) for _ in range(2))
    for number, start in enumerate(range(0, length - 1, args.bptt)):
        end = min(start + args.bptt, length - 1)
        if not (args.wait and number % 2):
            model.zero_grad()
        hidden = tuple(state.detach() for state in hidden)
        out, hidden = ddp(text[start:end], hidden)
        criterion(out, text[start + 1 : end + 1].reshape(-1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
    if rank == 0 and args.save:
        torch.save(model.state_dict(), args.save)


torch.set_num_threads(1)
dist.init_process_group("gloo")
main()
dist.destroy_process_group()
