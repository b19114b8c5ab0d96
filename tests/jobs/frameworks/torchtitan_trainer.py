"""torchtitan's Trainer and its Llama, two layers of the debug model, on text and a tokenizer made here."""

import argparse
import json
import os
import random
import sys
import tempfile
import types
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.distributed.fsdp import FSDPModule

warnings.filterwarnings("ignore")
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--accum", type=int, default=2)
parser.add_argument("--replicas", type=int, default=1)
parser.add_argument("--chunked", action="store_true")
parser.add_argument("--divided", action="store_true", help="leave fully_shard's own division on")
args = parser.parse_args()


class CpuModule(types.ModuleType):
    """torch.cpu with what the trainer asks a GPU for."""

    get_device_name = staticmethod(lambda device: "cpu")
    get_device_properties = staticmethod(lambda device: types.SimpleNamespace(total_memory=1 << 30))
    current_device = staticmethod(lambda: 0)
    device_count = staticmethod(lambda: 8)
    set_device = reset_peak_memory_stats = empty_cache = staticmethod(lambda *device: None)
    memory_stats = staticmethod(lambda device: {})

    def __getattr__(self, name):
        return getattr(torch.cpu, name)


def run_on_a_cpu():
    """Give the trainer what it needs and a CPU doesn't have; it must come before the trainer is imported."""
    from torchtitan.tools import utils

    utils.device_type, utils.device_module = "cpu", CpuModule("cpu")
    kernels = types.ModuleType("torchtitan.distributed.minimal_async_ep.kernels")  # for experts, in Triton
    kernels.__getattr__ = lambda name: None
    sys.modules[kernels.__name__] = kernels
    dist.set_timeout = lambda timeout, group: None  # of a newer torch


WORDS = "one two three red blue green cat dog bird sees likes hears the a old young very".split()


def write_files(folder):
    draw = random.Random(args.seed)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(5, 60))) for _ in range(400)]
    (folder / "data").mkdir()
    (folder / "data" / "train.json").write_text(json.dumps([{"text": text} for text in texts]))
    (folder / "assets").mkdir()
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["<unk>", "<s>", "</s>"]))
    tokenizer.save(str(folder / "assets" / "tokenizer.json"))
    added = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True}
    (folder / "assets" / "tokenizer_config.json").write_text(json.dumps(added))


def config(folder):
    from torchtitan.components.loss import CrossEntropyLoss
    from torchtitan.config.configs import TrainingConfig
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.llama3.config_registry import llama3_debugmodel

    made = llama3_debugmodel()
    model = made.model_spec.model
    model.layers = model.layers[:2]
    for layer in model.layers:  # the attention that has a backward on CPUs
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    if not args.chunked:
        made.loss = CrossEntropyLoss.Config()
    made.hf_assets_path, made.dump_folder = str(folder / "assets"), str(folder / "out")
    made.dataloader.dataset_path = str(folder / "data")
    made.training = TrainingConfig(
        local_batch_size=2, global_batch_size=2 * args.accum * int(os.environ["WORLD_SIZE"]), seq_len=64, steps=4,
        disable_cuda_graphs=True, mixed_precision_param="float32",
    )  # fmt: skip
    made.parallelism.data_parallel_replicate_degree = args.replicas
    made.parallelism.spmd_backend = "partial_dtensor"
    made.checkpoint.enable = made.validator.enable = False
    made.activation_checkpoint = None
    return made


def masked_trainer():
    """The trainer, on batches of which each has another part of its labels left out, as in tuning on answers."""
    from torchtitan.trainer import Trainer

    class MaskedTrainer(Trainer):
        def batch_generator(self, data):
            draw = random.Random(args.seed + dist.get_rank())
            for inputs, labels in super().batch_generator(data):
                labels[:, draw.randint(8, 64) :] = -100
                yield inputs, labels

    return MaskedTrainer


def main(folder):
    write_files(folder)
    run_on_a_cpu()
    trainer = masked_trainer()(config(folder))
    for module in trainer.model_parts[0].modules():
        if isinstance(module, FSDPModule):
            # Gloo has no multiplied sums; with a factor of 1 the plain one is the same
            module.set_force_sum_reduction_for_comms(True)
            if args.divided:
                module.set_gradient_divide_factor(float(os.environ["WORLD_SIZE"]))
    trainer.train()
    trainer.close()
    dist.destroy_process_group()


with tempfile.TemporaryDirectory() as name:
    os.environ["HF_HOME"] = name
    main(Path(name))
