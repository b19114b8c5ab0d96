"""Two ranks of one model beside one process, all numbers by hand: whether parts or backward make a difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.compared.test_comparison import TYPE, slugs
from audit.traces import HandJob, rows
from failuremap.audit import diagnose
from failuremap.audit.launch.reference import GRADIENTS
from failuremap.audit.model import Verdict
from failuremap.audit.trace import TraceWriter


def parted(gradients: Any, _: int) -> Any:
    """Two ranks of one model: they differ in head.weight alone, of which each has a part of the gradient."""
    found, head = np.repeat(gradients[:1], len(gradients), axis=0), slice(-rows((10, 8)), None)
    found[:, :, head] = gradients[:, :, head]
    return found


def as_one_model(job: HandJob, folder: Path, head: Callable[[Any], Any]) -> Verdict:
    """The verdict where both ranks' passes are one contribution, whose head.weight has a gradient of these parts."""
    writer = TraceWriter(job.write(folder) / GRADIENTS)
    writer.write({"kind": "reference", "file": "ref.py", "function": "objective"})
    for id, (name, shape) in enumerate(job.shapes.items()):
        fields = {"kind": "parameter", "id": id, "name": name, "rank": None, "shape": shape, "rows": rows(shape)}
        writer.write({**fields, "dtype": TYPE})
    for window in job.windows()[:2]:
        parts = window.gradients_RML[:, 0]
        whole = 412 * parts[0]
        whole[window.columns("head.weight")] = 412 * head(parts[:, window.columns("head.weight")])
        fields = {"kind": "contribution", "optimizer": 0, "count": window.number, "loss": 1.0, "units": 412.0}
        members = [[0, window.number], [1, window.number]]
        writer.write({**fields, "members": members, "parameters": [*range(len(job.shapes))]}, whole)
    writer.write({"kind": "end"})
    writer.close()
    return diagnose(folder)


@pytest.mark.parametrize(
    ("head", "named", "told"),
    [
        (lambda parts: 0.5 * (parts[0] + parts[1]), [], ""),
        (
            lambda parts: parts[0] + parts[1],
            ["partials-averaged"],
            "head.weight: the ranks average their parts of the gradient, which added up are that of one process",
        ),
        (
            lambda parts: parts[0] - parts[1],
            [],
            (
                "head.weight: its gradients are added up as all others are, so backward itself gave others than those "
                "of one process"
            ),
        ),
    ],
    ids=["right", "averaged", "backward"],
)
def test_captured_gradients_tell_where_a_difference_comes_from(head, named, told, tmp_path):
    verdict = as_one_model(HandJob(counts=((412,), (412,)), gradients=parted, steps=2), tmp_path, head)

    assert (verdict.outcome, slugs(verdict)) == ("wrong" if told else "right", named)
    assert not told or f"{told} (2 of 2 steps)" in verdict.notes
