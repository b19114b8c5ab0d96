"""torchtune's recipes as they lie in its package, on a tiny random Llama, a tokenizer made here, and a JSON file."""

import argparse
import json
import os
import random
import runpy
import sys
import tempfile
import warnings
from pathlib import Path

import sentencepiece
import torch
import torchtune.training
from torchtune.models.llama2 import llama2

warnings.filterwarnings("ignore")
parser = argparse.ArgumentParser()
parser.add_argument("--recipe", default="full_finetune_distributed")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--accum", type=int, default=2)
parser.add_argument("--own-copy", default="", choices=["", "not-times-world"], help="a copy of the recipe, edited")
args = parser.parse_args()

# what the recipes for GPUs say that a CPU, or a torch without NCCL, doesn't have
torchtune.training.get_memory_stats = lambda device: {}
torchtune.training.log_memory_stats = lambda stats: None
torch.cpu.empty_cache = torch.cpu.reset_peak_memory_stats = lambda: None
EDITS = [('"cuda:nccl,cpu:gloo"', '"gloo"')]
if args.own_copy:
    EDITS.append(("self.world_size / num_tokens", "1 / num_tokens"))

WORDS = "one two three red blue green cat dog bird sees likes hears the a old young very".split()
SIZES = {"vocab_size": 80, "num_layers": 2, "num_heads": 2, "num_kv_heads": 2, "embed_dim": 32, "max_seq_len": 128}
LORA = {"lora_attn_modules": ["q_proj", "v_proj"], "lora_rank": 4, "lora_alpha": 8, "apply_lora_to_mlp": False}
SCHEDULE = "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup"


def write_files(folder):
    draw = random.Random(args.seed)
    rows = [
        {key: " ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for key in ("input", "output")} for _ in range(64)
    ]
    (folder / "data.json").write_text(json.dumps(rows))
    (folder / "text.txt").write_text("\n".join(f"{row['input']} {row['output']}" for row in rows))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "tokenizer"), vocab_size=SIZES["vocab_size"],
        hard_vocab_limit=False, minloglevel=2, num_threads=1, pad_id=3,
    )  # fmt: skip
    (folder / "base").mkdir()
    torch.manual_seed(args.seed)
    torch.save(llama2(**SIZES).state_dict(), folder / "base" / "model.pt")


def config(folder):
    """The recipe's configuration: JSON is YAML."""
    made = lambda name, **values: {"_component_": f"torchtune.{name}", **values}  # noqa: E731
    is_lora = args.recipe.startswith("lora")
    model = made("models.llama2.lora_llama2", **SIZES, **LORA) if is_lora else made("models.llama2.llama2", **SIZES)
    checkpoints = {"checkpoint_dir": f"{folder}/base", "checkpoint_files": ["model.pt"], "recipe_checkpoint": None}
    return {
        "output_dir": f"{folder}/out",
        "tokenizer": made("models.llama2.llama2_tokenizer", path=f"{folder}/tokenizer.model", max_seq_len=64),
        "dataset": made(
            "datasets.instruct_dataset", source="json", data_files=f"{folder}/data.json", split="train",
            packed=False, train_on_input=False,
        ),
        "model": model,
        "checkpointer": made(
            "training.FullModelTorchTuneCheckpointer", **checkpoints, output_dir=f"{folder}/out", model_type="LLAMA2"
        ),
        "optimizer": {"_component_": "torch.optim.SGD", "lr": 0.1},
        "loss": made("modules.loss.CEWithChunkedOutputLoss"),
        "metric_logger": made("training.metric_logging.DiskLogger", log_dir=f"{folder}/logs"),
        **({"lr_scheduler": {"_component_": SCHEDULE, "num_warmup_steps": 1}} if is_lora else {}),
        "batch_size": 2, "epochs": 1, "max_steps_per_epoch": 4, "gradient_accumulation_steps": args.accum,
        "resume_from_checkpoint": False, "save_adapter_weights_only": False, "compile": False,
        "optimizer_in_bwd": False, "shuffle": True, "seed": 1, "device": "cpu", "dtype": "fp32",
    }  # fmt: skip


def main(folder):
    write_files(folder)
    (folder / "config.yaml").write_text(json.dumps(config(folder)))
    recipe = Path(torchtune.__file__).parents[1] / "recipes" / f"{args.recipe}.py"
    source = recipe.read_text()
    for old, new in EDITS:
        source = source.replace(old, new)
    (folder / recipe.name).write_text(source)
    sys.argv = [recipe.name, "--config", str(folder / "config.yaml")]
    runpy.run_path(str(folder / recipe.name), run_name="__main__")


with tempfile.TemporaryDirectory() as name:
    os.environ["HF_HOME"] = name
    main(Path(name))
