"""A small tagger trained with Lightning's Trainer, by automatic or manual optimisation, and with Fabric by hand."""

import argparse
import os
import tempfile
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
WORDS, TAGS = 80, 7


class Sentences(Dataset):
    def __init__(self, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = [
            torch.randint(1, WORDS, (int(n),), generator=g) for n in torch.randint(3, 24, (size,), generator=g)
        ]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    words = nn.utils.rnn.pad_sequence(items, batch_first=True)
    return words, torch.where(words > 0, words % TAGS, -100)


class Tagger(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width, padding_idx=0)
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, TAGS))

    def forward(self, words):
        return self.body(self.embed(words))


def summed(model, batch):
    words, tags = batch
    return F.cross_entropy(model(words).view(-1, TAGS), tags.view(-1), reduction="sum"), (tags != -100).sum()


class Automatic(L.LightningModule):
    """One batch a step: the count is that of the batch, on all ranks or on this one."""

    def __init__(self, args):
        super().__init__()
        self.model, self.args = Tagger(), args

    def configure_model(self):
        if self.args.strategy == "fully-shard":
            fully_shard(self.model, mesh=self.device_mesh["data_parallel"])
        elif self.args.strategy == "fsdp":  # the strategy would look for a GPU
            self.model = FullyShardedDataParallel(self.model, device_id=torch.device("cpu"), use_orig_params=True)

    def training_step(self, batch, index):
        loss, count = summed(self.model, batch)
        if self.args.counts == "all":
            count = self.all_gather(count).sum() / self.trainer.world_size
        return loss / count

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.args.lr)


class Manual(Automatic):
    """Whole windows: every batch of a window is divided by the count of the window."""

    automatic_optimization = False

    def training_step(self, window, index):
        optimizer = self.optimizers()
        count = sum((tags != -100).sum() for _, tags in window)
        if self.args.counts == "all":
            count = self.all_gather(count).sum() / self.trainer.world_size
        optimizer.zero_grad()
        for batch in window:
            self.manual_backward(summed(self.model, batch)[0] / count)
        if self.args.clip:
            self.clip_gradients(optimizer, gradient_clip_val=self.args.clip, gradient_clip_algorithm="norm")
        optimizer.step()


def loader(args, batch_size):
    return DataLoader(Sentences(args.steps * 2 * 4 * args.accum, args.seed), batch_size=batch_size, collate_fn=collate)


def windows(args):
    split = lambda items: [collate(items[i :: args.accum]) for i in range(args.accum)]  # noqa: E731
    data = Sentences(args.steps * 2 * 4 * args.accum, args.seed)
    return DataLoader(data, batch_size=4 * args.accum, collate_fn=split)


class FSDPOnCPU(FSDPStrategy):
    """Lightning gives its own class to GPUs only."""


def fully_sharded():
    return ModelParallelStrategy(data_parallel_size=int(os.environ["WORLD_SIZE"]), tensor_parallel_size=1)


STRATEGIES = {"ddp": DDPStrategy, "fsdp": FSDPOnCPU, "fully-shard": fully_sharded}


def trainer(args):
    module = Manual(args) if args.mode == "manual" else Automatic(args)
    automatic = {"accumulate_grad_batches": args.accum, "gradient_clip_val": args.clip or None}
    with tempfile.TemporaryDirectory() as folder:
        L.Trainer(
            accelerator="cpu", devices=int(os.environ.get("WORLD_SIZE", "1")), strategy=STRATEGIES[args.strategy](),
            max_epochs=1, precision=args.precision, logger=False, enable_checkpointing=False, default_root_dir=folder,
            enable_progress_bar=False, enable_model_summary=False, **({} if args.mode == "manual" else automatic),
        ).fit(module, windows(args) if args.mode == "manual" else loader(args, 4))  # fmt: skip


def fabric(args):
    fabric = L.Fabric(accelerator="cpu", devices=int(os.environ.get("WORLD_SIZE", "1")), strategy="ddp")
    fabric.launch()
    model = Tagger()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=args.lr))
    for window in fabric.setup_dataloaders(windows(args)):
        count = sum((tags != -100).sum() for _, tags in window)
        if args.counts == "all":
            count = fabric.all_reduce(count, reduce_op="sum") / fabric.world_size
        for i, batch in enumerate(window):
            last = i == len(window) - 1 and not args.never_sync
            with fabric.no_backward_sync(model, enabled=not last):
                fabric.backward(summed(model, batch)[0] / count)
        if args.clip:
            fabric.clip_gradients(model, optimizer, max_norm=args.clip)
        optimizer.step()
        optimizer.zero_grad()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["auto", "manual", "fabric"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--counts", default="all", choices=["all", "own"])
    parser.add_argument("--never-sync", action="store_true")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--strategy", default="ddp", choices=STRATEGIES)
    args = parser.parse_args()
    torch.set_num_threads(1)
    L.seed_everything(args.seed, verbose=False)
    fabric(args) if args.mode == "fabric" else trainer(args)


if __name__ == "__main__":
    main()
