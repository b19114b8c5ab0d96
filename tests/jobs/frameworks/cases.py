"""What the audit should say of jobs under frameworks: one row a case, as in `jobs.expectations`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jobs.expectations import Case, right, wrong

FOLDER = Path(__file__).resolve().parents[3] / ".venv-frameworks"
UNSEEN = ("not measured", "cannot tell")


@dataclass(frozen=True)
class Framework:
    """Where a framework is installed, and what of it a job server imports before it forks."""

    installed: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def folders(self) -> list[Path]:
        """Its folders, for PYTHONPATH."""
        return [FOLDER / name for name in self.installed]


FRAMEWORKS = {
    "huggingface": Framework(
        ("huggingface",),
        ("transformers.trainer", "transformers.models.llama.modeling_llama", "transformers.models.bert.modeling_bert"),
    ),
    # not more: pyarrow, which the datasets library imports, starts a thread, and then nothing can be forked
    "trl": Framework(("huggingface", "trl"), ("transformers.models.llama.modeling_llama",)),
    "lightning": Framework(("lightning",), ("lightning",)),
    "deepspeed": Framework(("deepspeed",), ("deepspeed",)),
    "huggingface-deepspeed": Framework(
        ("huggingface", "deepspeed"), ("transformers.trainer", "transformers.models.llama.modeling_llama", "deepspeed")
    ),
    # torchtune imports the datasets library: see above
    "torchtune": Framework(("torchtune", "huggingface", "trl"), ("sentencepiece", "safetensors")),
    "torchtitan": Framework(("torchtitan", "huggingface", "trl", "loggers"), ("tokenizers", "tensorboard")),
    "liger": Framework(
        ("liger", "huggingface"),
        ("liger_kernel.transformers", "transformers.trainer", "transformers.models.llama.modeling_llama"),
    ),
    "jax": Framework(("flax",), ("jax", "optax", "flax.linen", "flax.nnx", "flax.training.train_state")),
}
HF, LOOP, TRL, LIGHT, ZERO, WAYS, FLAX, TUNE, TITAN, LIGER = (
    f"frameworks/{name}.py"
    for name in (
        "hf_trainer",
        "accelerate_loop",
        "trl_jobs",
        "lightning_jobs",
        "deepspeed_zero",
        "jax_ways",
        "jax_flax",
        "torchtune_recipe",
        "torchtitan_trainer",
        "liger_jobs",
    )
)

# One row a case, as in a table.
# fmt: off
CASES: dict[str, list[Case]] = {
    "huggingface": [
        right("trainer", HF, "--accum 2 --clip 0.5", 2),
        right("trainer-bfloat16", HF, "--bf16 --accum 2 --checkpointing", 2),
        right("trainer-smoothing", HF, "--smoothing 0.1 --accum 2", 2),
        right("trainer-tail", HF, "--tail --accum 2", 2),
        right("trainer-loss-function", HF, "--loss function --accum 2", 2),
        right("trainer-own-loss-of-equal-rows", HF, "--loss own --equal", 2),
        wrong("trainer-counts-per-rank", HF, "--accum 2 --per-rank-counts", 2, "replica-means-ignore-counts"),
        wrong("trainer-smoothing-per-rank", HF, "--smoothing 0.1 --per-rank-counts", 2, "replica-means-ignore-counts"),
        wrong("trainer-own-loss", HF, "--loss own", 2, "replica-means-ignore-counts"),
        wrong("trainer-own-loss-summed", HF, "--loss own --equal --accum 3", 2, "window-sum-not-mean"),
        wrong("trainer-own-sums", HF, "--loss sums --accum 3", 2,
              "global-denominator-averaged-again averaged-over-ranks-twice"),
        right("accelerate", LOOP, "--accum 2 --clip 0.5", 2),
        right("accelerate-documented-loop", LOOP, "--loop accumulate --equal --accum 2", 2),
        wrong("accelerate-counts", LOOP, "--accum 2 --counts own", 2, "replica-means-ignore-counts"),
        wrong("accelerate-documented-loop-uneven", LOOP, "--loop accumulate --accum 2", 2,
              "mean-of-microbatch-means replica-means-ignore-counts"),
        wrong("accelerate-never-synced", LOOP, "--accum 2 --never-sync", 2, "never-synchronised"),
        right("trainer-fsdp2", HF, "--sharded fsdp2 --accum 2 --clip 0.5", 2),
        wrong("trainer-fsdp2-counts-per-rank", HF, "--sharded fsdp2 --per-rank-counts", 2,
              "replica-means-ignore-counts"),
    ],
    "trl": [
        right("sft", TRL, "sft --accum 2", 2, timeout=180.0),
        right("sft-packed", TRL, "sft --packing", 2, timeout=180.0),
        wrong("sft-counts-per-rank", TRL, "sft --accum 2 --per-rank-counts", 2, "replica-means-ignore-counts",
              timeout=180.0),
        right("sft-dft", TRL, "sft --loss-type dft --accum 2", 2, timeout=180.0),
        wrong("sft-dft-counts-per-rank", TRL, "sft --loss-type dft --per-rank-counts", 2,
              "replica-means-ignore-counts", timeout=180.0),
        right("dpo", TRL, "dpo --accum 2", 2, unit="example", timeout=180.0),
        right("dpo-ipo", TRL, "dpo --loss-type ipo", 2, timeout=180.0),
        wrong("dpo-short-micro-batch", TRL, "dpo --loss-type hinge --rows 5 --accum 3", 1, "mean-of-microbatch-means",
              timeout=180.0),
        right("grpo", TRL, "grpo --batch 4 --accum 2 --longest 24 --steps 2", 2, timeout=180.0),
        right("grpo-answers", TRL, "grpo --batch 4 --loss-type grpo --longest 24 --steps 2", 2, timeout=180.0),
        wrong("grpo-own-counts", TRL, "grpo --batch 4 --loss-type bnpo --longest 24 --steps 2", 2,
              "replica-means-ignore-counts", timeout=180.0),
    ],
    "lightning": [
        right("lightning", LIGHT, "auto", 2),
        right("lightning-clip-bfloat16", LIGHT, "auto --clip 0.1 --precision bf16-mixed", 2),
        right("lightning-manual", LIGHT, "manual --accum 2 --clip 0.1", 2),
        wrong("lightning-counts", LIGHT, "auto --counts own", 2, "replica-means-ignore-counts"),
        wrong("lightning-accumulated-means", LIGHT, "auto --accum 2", 2, "mean-of-microbatch-means"),
        wrong("lightning-manual-counts", LIGHT, "manual --accum 2 --counts own", 2, "replica-means-ignore-counts"),
        right("lightning-fully-shard", LIGHT, "auto --strategy fully-shard", 2),
        wrong("lightning-fully-shard-counts", LIGHT, "auto --strategy fully-shard --counts own", 2,
              "replica-means-ignore-counts"),
        right("lightning-fsdp", LIGHT, "manual --strategy fsdp --accum 2", 2),
        wrong("lightning-fsdp-counts", LIGHT, "auto --strategy fsdp --counts own", 2, "replica-means-ignore-counts"),
        right("fabric", LIGHT, "fabric --accum 2 --clip 0.1", 2),
        wrong("fabric-counts", LIGHT, "fabric --accum 2 --counts own", 2, "replica-means-ignore-counts"),
        wrong("fabric-never-synced", LIGHT, "fabric --accum 2 --never-sync", 2, "never-synchronised"),
    ],
    "deepspeed": [
        right("zero-0", ZERO, "--stage 0 --accum 2 --clip 0.05", 2),
        wrong("zero-0-counts", ZERO, "--stage 0 --precision bf16 --counts own", 2, "replica-means-ignore-counts"),
        right("zero-1", ZERO, "--stage 1 --accum 2 --clip 0.05 --groups", 2),
        wrong("zero-1-batches", ZERO, "--stage 1 --accum 2 --counts batch", 2,
              "mean-of-microbatch-means replica-means-ignore-counts"),
        right("zero-1-bfloat16-in-float32", ZERO,
              '--stage 1 --precision bf16 --accum 2 --config {"data_types":{"grad_accum_dtype":"fp32"}}', 2),
        right("zero-2", ZERO, '--stage 2 --accum 2 --clip 0.05 --zero {"round_robin_gradients":true}', 2),
        wrong("zero-2-counts", ZERO, "--stage 2 --precision bf16 --counts own --clip 0.05", 2,
              "replica-means-ignore-counts"),
        right("zero-3", ZERO, '--stage 3 --accum 2 --torch-style --clip 0.05 --groups '
              '--zero {"sub_group_size":3000}', 2),
        wrong("zero-3-counts", ZERO, "--stage 3 --accum 2 --counts own", 2, "replica-means-ignore-counts"),
        Case("zero-2-offload", ZERO, '--stage 2 --counts own --zero {"offload_optimizer":{"device":"cpu"}}', 2, UNSEEN),
    ],
    "huggingface-deepspeed": [
        right("trainer-zero-3", HF, "--sharded zero3 --accum 2 --clip 0.5", 2),
        wrong("trainer-zero-2-counts-per-rank", HF, "--sharded zero2 --accum 2 --per-rank-counts", 2,
              "replica-means-ignore-counts"),
        right("accelerate-zero-1", LOOP, "--zero 1 --loop accumulate --equal --accum 2 --clip 0.5", 2),
        wrong("accelerate-zero-3-uneven", LOOP, "--zero 3 --loop accumulate --accum 2", 2,
              "mean-of-microbatch-means replica-means-ignore-counts"),
    ],
    "torchtune": [
        right("torchtune", TUNE, "", 2, timeout=180.0),
        right("torchtune-lora", TUNE, "--recipe lora_finetune_distributed", 2, timeout=180.0),
        wrong("torchtune-not-times-world", TUNE, "--own-copy not-times-world", 2,
              "global-denominator-averaged-again divided-twice", timeout=180.0),
    ],
    "torchtitan": [
        right("torchtitan", TITAN, "", 2, timeout=180.0),
        wrong("torchtitan-divided", TITAN, "--divided --accum 3", 2,
              "global-denominator-averaged-again averaged-over-ranks-twice divided-twice", timeout=180.0),
        Case("torchtitan-chunked", TITAN, "--chunked", 2, ("not measured",), timeout=180.0),
    ],
    "liger": [
        right("liger-trainer", HF, "--liger --accum 2 --steps 2", 2, tolerance=None),
        wrong("liger-per-rank", LIGER, "logits --per-rank --smoothing 0.1", 2, "replica-means-ignore-counts",
              tolerance=None),
        Case("liger-own-weights", LIGER, "head --own-weights", 2, ("not measured",), tolerance=None),
    ],
    "jax": [
        right("jax", WAYS, "shard_map", None),
        right("jax-scan", WAYS, "shard_map --inside scan --accum 3", None),
        right("jax-counted", WAYS, "shard_map --counted --accum 3", None),
        right("jax-pmap", WAYS, "pmap --without-params", None),
        right("jax-jit", WAYS, "jit", None),
        right("jax-processes", WAYS, "processes", 2),
        right("jax-nnx", FLAX, "nnx", None),
        wrong("jax-own-means", WAYS, "shard_map --own-means", None, "replica-means-ignore-counts"),
        wrong("jax-scan-last", WAYS, "shard_map --inside last --accum 3", None, "accumulator-overwritten"),
        wrong("jax-multisteps", WAYS, "shard_map --accum 3", None, "mean-of-microbatch-means"),
        wrong("jax-pmap-summed", WAYS, "pmap --reduce sum", None, "replicas-summed"),
        wrong("jax-reduced-twice", WAYS, "shard_map --reduce mean-of-sum", None, "replicas-summed"),
        wrong("jax-jit-multisteps", WAYS, "jit --accum 3", None, "mean-of-microbatch-means"),
        wrong("jax-processes-own-means", WAYS, "processes --own-means", 2, "replica-means-ignore-counts"),
        wrong("jax-processes-multisteps", WAYS, "jit-processes --accum 3", 2, "mean-of-microbatch-means"),
        wrong("jax-linen-own-means", FLAX, "linen --own-means", None, "replica-means-ignore-counts"),
        Case("jax-parts", WAYS, "shard_map --apart", None, ("not measured",)),
        Case("jax-added-up-before", WAYS, "pmap --late", None, ("not measured",)),
    ],
}
# fmt: on
