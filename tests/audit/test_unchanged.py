"""The audit changes nothing in the job: the trained weights are the same, bit by bit, with it and without."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from audit.harness import JobServer

pytestmark = pytest.mark.torch

JOBS = {
    "ddp": ("ddp_lm.py", "", 2),
    "accumulation": ("ddp_lm.py", "--accum 3 --opt adamw --clip norm", 2),
    "bfloat16": ("ddp_lm.py", "--dtype bfloat16 --accum 2", 2),
    "autocast": ("ddp_lm.py", "--autocast --scaler", 2),
    "bucket-view": ("ddp_lm.py", "--bucket-view --static-graph", 2),
    "checkpointing": ("ddp_lm.py", "--checkpointing --tied", 2),
    "compile": ("ddp_lm.py", "--compile --steps 3", 2),
    "sparse": ("recommender.py", "", 2),
    "fsdp": ("fsdp_lm.py", "--accum 2 --clip norm", 2),
    "hsdp-bfloat16": ("fsdp_lm.py", "--replicas 2 --precision bf16", 4),
    "fsdp1": ("fsdp1_lm.py", "--accum 2 --no-sync --clip own", 2),
    "tensor-parallel": ("tp_lm.py", "--sequence --loss-parallel --accum 2", 4),
    "pipeline": ("split/stages.py", "--schedule v --rounds 2 --lengths uneven", 2),
    "pipeline-ddp": ("split/stages.py", "--schedule interleaved --replicas ddp --tied built --clip 0.3", 4),
    "pipeline-by-hand": ("split/hand_stages.py", "--order last-first --tied", 2),
    "in-part": ("ddp_lm.py", "--accum 2 --opt adamw --clip norm --steps 12", 2),
    "one-process": ("accum_lm.py", "--accum 4 --clip 0.5", 1),
}
SLOW = {"compile", "pipeline-ddp", "pipeline-by-hand"}


def train(server: JobServer, folder: Path, name: str, trace: Path | None, seed: int = 0) -> dict[str, Any]:
    """Run a job and return the weights that it saves; `trace`: under the audit."""
    import torch

    script, options, nproc = JOBS[name]
    saved = folder / "weights.pt"
    saved.unlink(missing_ok=True)
    args = [*shlex.split(options), "--seed", str(seed), "--save", str(saved)]
    result = server.run_job(script, args, nproc, trace, env={"FAILUREMAP_EVERY": "64" if name == "in-part" else "1"})
    assert result.ok, result.output
    return dict(torch.load(saved))


def differing(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Names of the weights whose bytes differ."""
    import torch

    assert set(first) == set(second)
    return [name for name in first if not torch.equal(_bytes(first[name]), _bytes(second[name]))]


def _bytes(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in JOBS])
def test_trained_weights_are_the_same_with_the_audit_and_without(
    job_server: JobServer, tmp_path: Path, name: str
) -> None:
    trace = tmp_path / "trace"
    trace.mkdir()
    plain = train(job_server, tmp_path, name, None)

    audited = train(job_server, tmp_path, name, trace)

    assert len(list(trace.glob("*.trace"))) == JOBS[name][2]
    assert differing(plain, audited) == []


def test_the_job_that_is_read_in_part_has_windows_of_both_kinds(job_server: JobServer, tmp_path: Path) -> None:
    from failuremap.audit.trace import read

    trace = tmp_path / "trace"
    trace.mkdir()
    train(job_server, tmp_path, "in-part", trace)

    for path in trace.glob("*.trace"):
        steps = [record.fields for record in read(path).records() if record.kind == "step"]
        assert [step.get("in_part", False) for step in steps] == [False] * 8 + [True] * 4


def test_a_changed_last_bit_is_seen(job_server: JobServer, tmp_path: Path) -> None:
    import torch

    plain = train(job_server, tmp_path, "one-process", None)
    changed = {name: tensor.clone() for name, tensor in plain.items()}
    name = next(iter(changed))
    changed[name].view(torch.int32).view(-1)[0] ^= 1

    assert differing(plain, changed) == [name]


def test_another_seed_trains_other_weights(job_server: JobServer, tmp_path: Path) -> None:
    first = train(job_server, tmp_path, "one-process", None)
    second = train(job_server, tmp_path, "one-process", None, seed=1)

    assert differing(first, second)
