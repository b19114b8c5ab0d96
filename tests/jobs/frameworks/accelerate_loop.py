"""A loop of one's own with accelerate: a small masked language model, batches of uneven length, accumulation."""

import argparse
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
import torch.nn.functional as F
from accelerate import Accelerator, PartialState
from accelerate.utils import DeepSpeedPlugin
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForMaskedLM

VOCABULARY, MASK = 90, 89


def deepspeed_plugin(stage, steps):
    """DeepSpeed's plugin. Without a GPU accelerate has to be told that there are several processes."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # no compiler is needed then
    PartialState(cpu=True)
    return DeepSpeedPlugin(zero_stage=stage, gradient_accumulation_steps=steps)


def rows(size, seed, equal):
    g = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(size):
        length = 20 if equal else int(torch.randint(8, 30, (1,), generator=g))
        words = torch.randint(1, MASK, (length,), generator=g)
        hidden = torch.arange(length) % 3 == 0 if equal else torch.rand(length, generator=g) < 0.4
        hidden[0] = True
        found.append((torch.where(hidden, MASK, words), torch.where(hidden, words, -100)))
    return found


def collate(items):
    pad = torch.nn.utils.rnn.pad_sequence
    words = pad([words for words, _ in items], batch_first=True)
    labels = pad([labels for _, labels in items], batch_first=True, padding_value=-100)
    return {"input_ids": words, "attention_mask": (words != 0).long(), "labels": labels}


def loss_of(model, batch, summed):
    labels = batch["labels"].view(-1)
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return F.cross_entropy(logits.view(-1, VOCABULARY), labels, reduction="sum" if summed else "mean")


def by_accumulate(accelerator, model, optimizer, loader, args):
    """The loop of the documentation: accelerate divides the loss by the steps, and holds the sync back."""
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(loss_of(model, batch, summed=False))
            if accelerator.sync_gradients and args.clip:
                accelerator.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
            optimizer.zero_grad()


def by_hand(accelerator, model, optimizer, loader, args):
    """Windows by hand, without accumulate(): with the count of the window on all ranks, or without it."""
    batches = iter(loader)
    for _ in range(args.steps):
        window = [next(batches) for _ in range(args.accum)]
        count = sum((batch["labels"] != -100).sum() for batch in window)
        if args.counts == "all":
            count = accelerator.gather(count).sum()
        for i, batch in enumerate(window):
            held = i < len(window) - 1 or args.never_sync
            with accelerator.no_sync(model) if held else torch.enable_grad():
                scale = accelerator.num_processes * accelerator.gradient_accumulation_steps
                loss = loss_of(model, batch, summed=True) / count * (scale if args.counts == "all" else 1)
                accelerator.backward(loss)
        if args.clip:
            accelerator.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        optimizer.zero_grad()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--loop", default="hand", choices=["hand", "accumulate"])
    parser.add_argument("--counts", default="all", choices=["all", "own"])
    parser.add_argument("--never-sync", action="store_true", help="no_sync() for all batches of the window")
    parser.add_argument("--equal", action="store_true", help="as many hidden words in each row")
    parser.add_argument("--tail", action="store_true", help="the data end within a window")
    parser.add_argument("--precision", default="no", choices=["no", "bf16"])
    parser.add_argument("--zero", type=int, default=0, help="stage of DeepSpeed's ZeRO")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    documented = args.loop == "accumulate"
    steps = args.accum if documented else 1
    where = {"deepspeed_plugin": deepspeed_plugin(args.zero, steps)} if args.zero else {"cpu": True}
    accelerator = Accelerator(gradient_accumulation_steps=steps, mixed_precision=args.precision, **where)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForMaskedLM(config)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = rows(args.steps * args.accum * 2 * 3 - (6 if args.tail else 0), args.seed, args.equal)
    loader = DataLoader(data, batch_size=3, collate_fn=collate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    (by_accumulate if documented else by_hand)(accelerator, model, optimizer, loader, args)
    accelerator.end_training()


if __name__ == "__main__":
    main()
