"""A framework in a version that the audit was not tested with is told, in one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from audit.capture.watched import watch
from failuremap.audit import diagnose
from failuremap.audit.capture.frameworks import TESTED, unknown

ROOT = Path(__file__).parents[3]


def test_the_tested_versions_are_those_that_make_frameworks_installs():
    pinned = dict(
        re.findall(
            r"^([\w-]+)==(\S+)$", "\n".join(p.read_text() for p in ROOT.glob("requirements/*.txt")), re.MULTILINE
        )
    )

    assert {name: pinned[name] for name in TESTED} == TESTED


@pytest.mark.parametrize(
    ("name", "version", "known"),
    [
        ("transformers", "5.99.1", True),
        ("transformers", "6.0.0", False),
        ("deepspeed", "0.19.1", True),
        ("deepspeed", "0.20.0", False),
    ],
)
def test_another_series_is_unknown(name, version, known):
    told = unknown({name: SimpleNamespace(__version__=version)})

    assert [sentence.split(":")[0] for sentence in told] == ([] if known else [f"{name} {version}"])


@pytest.mark.torch
def test_an_unknown_version_is_a_note_of_the_verdict_and_a_new_loss_in_it_is_not_measured(job_server, tmp_path):
    source = """
import sys, types
sys.modules["trl"] = types.SimpleNamespace(__version__="99.0.0")

class NewFusedLogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight):
        ctx.save_for_backward(hidden, weight)
        return (hidden @ weight.T).sum(1)
    @staticmethod
    def backward(ctx, gradient):
        hidden, weight = ctx.saved_tensors
        return gradient[:, None] * weight.sum(0), (gradient[:, None] * hidden).sum(0).expand_as(weight)

model = torch.nn.Linear(4, 3)
step = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    step.zero_grad()
    (-NewFusedLogProb.apply(torch.randn(5, 4), model.weight).mean()).backward()
    step.step()
"""
    watch(job_server, tmp_path, source)
    verdict = diagnose(tmp_path / "trace")

    assert (verdict.outcome, "NewFusedLogProb" in " ".join(verdict.reasons)) == ("not measured", True)
    assert [note for note in verdict.notes if "trl 99.0.0: tested with 1.16.0;" in note] != []
