"""Fine-tuning of a small causal language model with the Trainer of transformers, on rows of uneven length."""

import argparse
import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
import torch.nn.functional as F
from accelerate import DistributedType, PartialState
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

VOCABULARY, WIDTH = 96, 24
KERNELS = {"rope": False, "swiglu": False, "rms_norm": False, "fused_linear_cross_entropy": True}


class Rows(Dataset):
    """Made-up rows; the first part of each is a prompt that is not learnt."""

    def __init__(self, size, seed, equal=False):
        g = torch.Generator().manual_seed(seed)
        lengths = [WIDTH - 8 if equal else int(torch.randint(6, WIDTH, (1,), generator=g)) for _ in range(size)]
        self.rows = [torch.randint(1, VOCABULARY, (n,), generator=g) for n in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        labels = self.rows[i].clone()
        labels[:4] = -100
        return {"input_ids": self.rows[i], "labels": labels}


def pad(rows):
    width = max(len(row["input_ids"]) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    labels = torch.full((len(rows), width), -100)
    for i, row in enumerate(rows):
        ids[i, : len(row["input_ids"])], labels[i, : len(row["labels"])] = row["input_ids"], row["labels"]
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


class OwnLoss(Trainer):
    """As many people write it: the loss of the batch is its own mean."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logits = outputs.logits[:, :-1].reshape(-1, VOCABULARY)
        loss = F.cross_entropy(logits, labels[:, 1:].reshape(-1), ignore_index=-100)
        return (loss, outputs) if return_outputs else loss


class OwnLossOfSums(Trainer):
    """The same with the count that the Trainer hands over, but without the factor for the average over ranks."""

    times_ranks = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logits = outputs.logits[:, :-1].reshape(-1, VOCABULARY)
        loss = F.cross_entropy(logits, labels[:, 1:].reshape(-1), ignore_index=-100, reduction="sum")
        loss = loss / num_items_in_batch
        if self.times_ranks:
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss


class OwnLossOfSumsTimesRanks(OwnLossOfSums):
    times_ranks = True


def mean_over_window(outputs, labels, num_items_in_batch=None):
    logits = outputs.logits[:, :-1].reshape(-1, VOCABULARY)
    loss = F.cross_entropy(logits, labels[:, 1:].reshape(-1), ignore_index=-100, reduction="sum")
    return loss / num_items_in_batch


def sharding(kind):
    """Arguments of the Trainer that shard: 'fsdp2', 'zero1' to 'zero3'. Without a GPU accelerate has to be told."""
    if not kind:
        return {"use_cpu": True}
    as_told = {"accelerator_config": {"use_configured_state": True}}
    if kind == "fsdp2":
        PartialState(cpu=True).distributed_type = DistributedType.MULTI_GPU
        how = {"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}
        return {"use_cpu": True, "fsdp": True, "fsdp_config": how, **as_told}
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # no compiler is needed then
    PartialState(cpu=True).distributed_type = DistributedType.DEEPSPEED
    zero = {"zero_optimization": {"stage": int(kind[-1])}, "zero_allow_untested_optimizer": True}
    auto = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
    return {"deepspeed": {**zero, **dict.fromkeys(auto, "auto"), "bf16": {"enabled": "auto"}}, **as_told}


TRAINERS = {"own": OwnLoss, "sums": OwnLossOfSums, "sums-times-ranks": OwnLossOfSumsTimesRanks}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--loss", default="model", choices=["model", "function", *TRAINERS])
    parser.add_argument("--per-rank-counts", action="store_true", help="average_tokens_across_devices=False")
    parser.add_argument("--equal", action="store_true")
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--smoothing", type=float, default=0.0)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--tail", action="store_true", help="the data end within a window")
    parser.add_argument("--liger", action="store_true", help="Liger's head and loss in one function")
    parser.add_argument("--sharded", default="", choices=["", "fsdp2", "zero1", "zero2", "zero3"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    size = 2 * args.accum * args.steps * 2 - (2 if args.tail else 0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=2, gradient_accumulation_steps=args.accum,
            num_train_epochs=1, learning_rate=2e-3, seed=args.seed, max_grad_norm=args.clip, bf16=args.bf16,
            label_smoothing_factor=args.smoothing, gradient_checkpointing=args.checkpointing,
            average_tokens_across_devices=not args.per_rank_counts, report_to="none", save_strategy="no",
            logging_steps=1, disable_tqdm=True, use_liger_kernel=args.liger, liger_kernel_config=KERNELS,
            **sharding(args.sharded),
        )  # fmt: skip
        trainer = TRAINERS.get(args.loss, Trainer)(
            model=LlamaForCausalLM(config), args=arguments, train_dataset=Rows(size, args.seed, args.equal),
            data_collator=pad, compute_loss_func=mean_over_window if args.loss == "function" else None,
        )  # fmt: skip
        trainer.train()


if __name__ == "__main__":
    main()
