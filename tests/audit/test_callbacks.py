"""Callbacks of trainers: the job is watched from inside, its model by name, and the trace ends with the training."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from failuremap.audit import callbacks

FOLDERS = Path(__file__).parents[2] / ".venv-frameworks"

HUGGING_FACE = """
import sys, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from failuremap.audit.callbacks import TrainerAudit
torch.manual_seed(0)
small = dict(vocab_size=64, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None)
model = GPT2LMHeadModel(GPT2Config(**small))
data = []
for i in range(24):
    ids = torch.randint(1, 60, (16,))
    labels = ids.clone()
    labels[: 1 + i * 5 % 12] = -100  # the first has no loss, but would count in the denominator
    data.append({"input_ids": ids, "labels": labels, "attention_mask": torch.ones_like(ids)})
options = dict(max_steps=3, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, max_grad_norm=0.0)
windows = dict(per_device_train_batch_size=2, gradient_accumulation_steps=3)
args = TrainingArguments(sys.argv[1] + "/output", **windows, **options)
audit = TrainerAudit(sys.argv[1] + "/trace", every=1)
Trainer(model=model, args=args, train_dataset=data, callbacks=[audit]).train()
"""

LIGHTNING = """
import sys, torch, torch.nn.functional as F, lightning.pytorch as pl
from torch.utils.data import DataLoader, TensorDataset
from failuremap.audit.callbacks import LightningAudit
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)
    def training_step(self, batch, index):
        return F.cross_entropy(self.layer(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
torch.manual_seed(0)
audit = LightningAudit(sys.argv[1] + "/trace", every=1)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = pl.Trainer(max_epochs=1, accelerator="cpu", accumulate_grad_batches=2, callbacks=[audit], **quiet)
trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(13, 8), torch.randint(0, 4, (13,))), batch_size=3))
"""
# the window that the epoch's end cuts short is divided by the length of a full one
CASES = {"huggingface": (HUGGING_FACE, "right", []), "lightning": (LIGHTNING, "wrong", ["partial-window-full-divisor"])}


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.frameworks
@pytest.mark.parametrize("framework", CASES)
def test_a_trainer_with_the_callback_leaves_a_trace_with_an_end(tmp_path, framework):
    from failuremap.audit import diagnose

    folder, (source, outcome, slugs) = FOLDERS / framework, CASES[framework]
    if not (folder / ".installed").exists():
        if "all" in os.environ.get("FAILUREMAP_REQUIRE", "").split(","):
            pytest.fail(f"{framework} is not in .venv-frameworks, and FAILUREMAP_REQUIRE demands it: make frameworks")
        pytest.skip(f"{framework} is not in .venv-frameworks; install it: make frameworks")
    environment = {**os.environ, "PYTHONPATH": str(folder), "HF_HUB_OFFLINE": "1"}

    result = subprocess.run(
        [sys.executable, "-c", source, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=300
    )

    assert result.returncode == 0, result.stderr[-2000:]
    verdict = diagnose(tmp_path / "trace")
    assert verdict.outcome == outcome, verdict
    assert [one.slug for finding in verdict.findings for one in finding.candidates] == slugs
    assert verdict.evidence.parameter_count == verdict.evidence.parameter_total > 0


def test_the_module_brings_no_framework():
    code = "import sys, failuremap.audit.callbacks; print({'transformers', 'lightning', 'torch'} & sys.modules.keys())"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed == "set()\n"


def test_other_names_are_none_of_the_module():
    with pytest.raises(AttributeError, match="has no attribute 'KerasAudit'"):
        _ = callbacks.KerasAudit
