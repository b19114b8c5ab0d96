"""Jobs of the Trainers beside one process, on the batches and the model as the Trainer has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit import test_frameworks
from audit.harness import JobServer
from audit.referring import compare
from failuremap.audit.sentences import reference_words

framework_server = test_frameworks.framework_server
pytestmark = [pytest.mark.torch, pytest.mark.frameworks, pytest.mark.slow]

OBJECTIVE = """
import torch.nn.functional as F
def objective(model, batch):
    inputs = {name: value for name, value in batch.kwargs.items() if name not in LEFT_OUT}
    labels = inputs.pop("labels")[:, 1:]
    scores = model(**inputs).logits[:, :-1]
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum"), (labels != -100).sum()
"""


def train(server: JobServer, folder: Path, script: str, args: str) -> None:
    """Runs a job of two ranks, which keeps what a reference without `build` needs."""
    (folder / "trace").mkdir()
    kept = {"FAILUREMAP_REFERENCE": "model"}
    job = server.run_job(f"frameworks/{script}", args.split(), 2, folder / "trace", timeout=180, env=kept)
    assert job.ok, job.output[-3000:]


def beside(server: JobServer, folder: Path, *left_out: str):
    """The verdict beside one process, whose objective leaves some arguments of the model out."""
    (folder / "ref.py").write_text(OBJECTIVE.replace("LEFT_OUT", repr({"num_items_in_batch", *left_out})))
    return compare(server, folder)


@pytest.mark.parametrize(("args", "outcome"), [("--accum 2", "right"), ("--accum 2 --per-rank-counts", "wrong")])
def test_a_trainer_is_compared_with_the_model_that_it_was_given(args, outcome, framework_server, tmp_path):
    server = framework_server("huggingface")
    train(server, tmp_path, "hf_trainer.py", args)

    verdict = beside(server, tmp_path)

    assert verdict.outcome == outcome
    assert any(note.startswith("steps 1, 2 were compared with one process") for note in verdict.notes)


def test_an_objective_that_calls_the_model_otherwise_accuses_no_packed_rows(framework_server, tmp_path):
    server = framework_server("trl")
    train(server, tmp_path, "trl_jobs.py", "sft --packing")

    otherwise = beside(server, tmp_path, "fused_lm_head", "position_ids")

    assert beside(server, tmp_path, "fused_lm_head").outcome == "right"
    assert (otherwise.outcome, otherwise.findings) == ("cannot tell", [])
    assert otherwise.reasons == [f"{reference_words.OTHER_LOSS} (2 of 3 steps)"]
