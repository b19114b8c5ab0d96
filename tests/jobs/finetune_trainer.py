"""Fine-tuning of a small encoder as a tagger: Dataset, DataLoader, sampler, collate, scheduler, evaluation."""

import argparse
import logging
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Sampler

log = logging.getLogger("finetune")
N_WORDS, N_TAGS = 160, 9


class Sentences(Dataset):
    def __init__(self, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(size):
            n = int(torch.randint(2, 28, (1,), generator=g))
            words = torch.randint(1, N_WORDS, (n,), generator=g)
            tags = words % N_TAGS
            tags[torch.rand(n, generator=g) < 0.2] = -100  # pieces of words that carry no tag
            tags[0] = 0
            self.items.append((words, tags))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class ShardSampler(Sampler):
    """Global batches in order; this rank's rows of each."""

    def __init__(self, size, global_batch, rank, world):
        self.size, self.global_batch, self.rank, self.world = size, global_batch, rank, world

    def __len__(self):
        return self.size // self.world

    def __iter__(self):
        rows = self.global_batch // self.world
        for start in range(0, self.size, self.global_batch):
            yield from range(start + self.rank * rows, start + (self.rank + 1) * rows)


def collate(items):
    width = max(len(words) for words, _ in items)
    words = torch.zeros(len(items), width, dtype=torch.long)
    labels = torch.full((len(items), width), -100)
    for i, (w, t) in enumerate(items):
        words[i, : len(w)], labels[i, : len(t)] = w, t
    return {"input_ids": words, "attention_mask": words != 0, "labels": labels}


class Tagger(nn.Module):
    """Computes its loss itself when it gets labels, as many model classes do."""

    def __init__(self, returns="loss", width=32):
        super().__init__()
        self.returns = returns
        self.embed = nn.Embedding(N_WORDS, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classifier = nn.Linear(width, N_TAGS)

    def forward(self, input_ids, attention_mask, labels=None, num_items_in_batch=None):
        logits = self.classifier(self.encoder(self.embed(input_ids), src_key_padding_mask=~attention_mask))
        if labels is None:
            return logits
        reduction = "mean" if num_items_in_batch is None else "sum"
        loss = nn.CrossEntropyLoss(reduction=reduction)(logits.view(-1, N_TAGS), labels.view(-1))
        loss = loss if num_items_in_batch is None else loss / num_items_in_batch
        return (loss, logits) if self.returns == "all" else loss


def first(returned):
    return returned[0] if isinstance(returned, tuple) else returned


class Trainer:
    def __init__(self, model, args, train, evaluation):
        self.args = args
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        unused = args.find_unused
        self.model = DistributedDataParallel(model, find_unused_parameters=unused) if self.world > 1 else model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, eps=1e-3)
        total = args.steps
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda s: max(0.1, 1 - s / (2 * total)))
        sampler = ShardSampler(len(train), args.batch, self.rank, self.world)
        micro = args.batch // self.world // args.gradient_accumulation_steps
        self.loader = DataLoader(train, batch_size=micro, sampler=sampler, collate_fn=collate)
        self.evaluation = DataLoader(evaluation, batch_size=8, collate_fn=collate)

    def num_items(self, window):
        if self.args.num_items == "none":
            return None
        count = torch.tensor(sum(int((b["labels"] != -100).sum()) for b in window))
        if self.args.num_items == "global" and self.world > 1:
            dist.all_reduce(count)
        return count

    def training_step(self, batch, num_items, sync):
        context = self.model.no_sync() if self.world > 1 and not sync else nullcontext()
        with context:
            loss = first(self.model(**batch, num_items_in_batch=num_items))
            if num_items is None:
                loss = loss / self.args.gradient_accumulation_steps
            elif self.args.num_items == "global":
                loss = loss * self.world
            loss.backward()
        return loss.detach()

    def train(self):
        self.model.train()
        batches = iter(self.loader)
        for step in range(self.args.steps):
            window = [next(batches) for _ in range(self.args.gradient_accumulation_steps)]
            num_items = self.num_items(window)
            loss = torch.zeros(())
            for i, batch in enumerate(window):
                loss += self.training_step(batch, num_items, i == len(window) - 1)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            self.report(step, loss)

    def report(self, step, loss):
        shown = loss.clone()
        if self.world > 1:
            dist.all_reduce(shown, op=dist.ReduceOp.SUM)
        if self.rank == 0:
            log.info("step %d loss %.4f accuracy %.3f", step, shown / self.world, self.evaluate())

    @torch.no_grad()
    def evaluate(self):
        module = self.model.module if self.world > 1 else self.model
        module.eval()
        hits, count, loss = 0, 0, 0.0
        for batch in self.evaluation:
            loss += float(first(module(**batch)))
            logits = module(batch["input_ids"], batch["attention_mask"])
            keep = batch["labels"] != -100
            hits += int((logits.argmax(-1)[keep] == batch["labels"][keep]).sum())
            count += int(keep.sum())
        module.train()
        return hits / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--gradient-accumulation-steps", type=int, default=1)
    parser.add_argument("--max-grad-norm", type=float, default=1.0)
    parser.add_argument("--num-items", default="none", choices=["none", "local", "global"])
    parser.add_argument("--find-unused", action="store_true")
    parser.add_argument("--returns", default="loss", choices=["loss", "all"])
    parser.add_argument("--save", default="")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    model = Tagger(args.returns)
    train = Sentences(args.steps * args.batch, args.seed)
    Trainer(model, args, train, Sentences(8, args.seed + 1)).train()
    if args.save and os.environ["RANK"] == "0":
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    main()
    if dist.is_initialized():
        dist.destroy_process_group()
