"""Fine-tuning with TRL: on completions (SFT), on pairs of them (DPO), and by a reward (GRPO); everything is made up."""

import argparse
import copy
import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = [f"w{i}" for i in range(60)]


def tokenizer():
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def small_model(size):
    config = LlamaConfig(
        vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def text(g, shortest, longest):
    length = int(torch.randint(shortest, longest, (1,), generator=g))
    return " ".join(WORDS[i] for i in torch.randint(0, len(WORDS), (length,), generator=g).tolist())


def made_up(size, seed, columns):
    g = torch.Generator().manual_seed(seed)
    return Dataset.from_dict({name: [text(g, *span) for _ in range(size)] for name, span in columns.items()})


def sft(args, common, words):
    from trl import SFTConfig, SFTTrainer

    config = SFTConfig(
        **common, max_length=32, packing=args.packing, completion_only_loss=not args.packing, loss_type=args.loss_type,
        average_tokens_across_devices=not args.per_rank_counts, **({"padding_free": False} if args.packing else {}),
    )  # fmt: skip
    columns = {"text": (6, 40)} if args.packing else {"prompt": (2, 8), "completion": (2, 20)}
    rows = made_up(args.rows, args.seed, columns)
    return SFTTrainer(small_model(len(words)), config, train_dataset=rows, processing_class=words)


def dpo(args, common, words):
    from trl import DPOConfig, DPOTrainer

    config = DPOConfig(
        **common, max_length=48, loss_type=args.loss_type.split("+"), beta=0.2,
        label_smoothing=0.1 if args.loss_type in ("robust", "exo_pair") else 0.0,
    )  # fmt: skip
    rows = made_up(args.rows, args.seed, {"prompt": (2, 8), "chosen": (2, 20), "rejected": (2, 20)})
    model = small_model(len(words))
    return DPOTrainer(model, copy.deepcopy(model), args=config, train_dataset=rows, processing_class=words)


def grpo(args, common, words):
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        **common, num_generations=4, max_completion_length=args.longest, loss_type=args.loss_type,
        num_iterations=args.iterations, importance_sampling_level="sequence" if args.by_sequence else "token",
    )  # fmt: skip
    rows = made_up(args.rows, args.seed, {"prompt": (2, 8)})
    return GRPOTrainer(
        small_model(len(words)), reward_funcs=lambda completions, **_: [float(len(set(c))) for c in completions],
        args=config, train_dataset=rows, processing_class=words,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["sft", "dpo", "grpo"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--loss-type", default="")
    parser.add_argument("--longest", type=int, default=8, help="tokens of an answer, for GRPO")
    parser.add_argument("--iterations", type=int, default=1, help="steps on the same answers, for GRPO")
    parser.add_argument("--by-sequence", action="store_true", help="one ratio for each answer, for GRPO")
    parser.add_argument("--packing", action="store_true")
    parser.add_argument("--per-rank-counts", action="store_true", help="average_tokens_across_devices=False")
    args = parser.parse_args()
    args.loss_type = args.loss_type or {"sft": "nll", "dpo": "sigmoid", "grpo": "dapo"}[args.task]
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    words = tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        common = {
            "output_dir": folder, "use_cpu": True, "per_device_train_batch_size": args.batch, "max_steps": args.steps,
            "gradient_accumulation_steps": args.accum, "learning_rate": 1e-3, "seed": args.seed, "bf16": False,
            "report_to": "none", "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True,
            "gradient_checkpointing": False,
        }  # fmt: skip
        {"sft": sft, "dpo": dpo, "grpo": grpo}[args.task](args, common, words).train()


if __name__ == "__main__":
    main()
