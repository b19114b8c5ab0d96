"""Parameters divided by the number of ranks that they are reduced over, where the others are divided by all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.calling import crossing, on_gradients, with_calls
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict

COUNTS = [[300]] * 4
REST = ("embed.weight", "layer.weight", "layer.bias")
HOLDERS = (0, 2)
"""The ranks that hold the expert, which is the head."""


def experts(divisor: int) -> Any:
    """The head is reduced over its holders and divided; all others are averaged over all four ranks."""

    def update(window: Any) -> Any:
        updates, head = window.combined(1 / 4), window.columns("head.weight")
        updates[:, head] = window.gradients_RML[list(HOLDERS), 0, head].sum(axis=0) / divisor
        return updates

    return update


def only_on_holders(gradients: Any, _: int) -> Any:
    gradients[[rank for rank in range(4) if rank not in HOLDERS], :, -80:] = 0
    return gradients


def calls(rank: int, _: int) -> list[dict[str, Any]]:
    own = [on_gradients(HOLDERS, ["head.weight"])] if rank in HOLDERS else []
    return [crossing((0, 1) if rank < 2 else (2, 3)), on_gradients((0, 1, 2, 3), REST), *own]


def diagnosed(folder: Any, divisor: int, calls: Any = calls, job: type[HandJob] = HandJob) -> Verdict:
    """The verdict on such a job."""
    return diagnose(with_calls(job(COUNTS, experts(divisor), gradients=only_on_holders), folder, calls))


def names(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def test_an_expert_that_is_divided_by_its_replicas_alone_is_named(tmp_path):
    verdict = diagnosed(tmp_path, 2)

    assert (verdict.outcome, names(verdict)) == ("wrong", ["expert-divisor-misses-ep"])
    assert verdict.findings[0].parameters == ["head.weight"]
    assert verdict.sentence == (
        "1 parameter is reduced over 2 of 4 ranks and gets 2 times the update of the rest, which is reduced over all: "
        "head.weight."
    )


def test_negative_control_an_expert_that_is_divided_by_all_ranks_is_right(tmp_path):
    assert diagnosed(tmp_path, 4).outcome == "right"


def without(function: str) -> Any:
    return lambda rank, step: [one for one in calls(rank, step) if one.get("by", "") != function]


def over_all(rank: int, step: int) -> list[dict[str, Any]]:
    return [crossing((0, 1)), on_gradients((0, 1, 2, 3))]


@pytest.mark.parametrize(
    ("divisor", "told"),
    [(2, without("Sum")), (2, lambda *_: []), (2, over_all), (1, without("")), (8, calls)],
    ids=["nothing crosses", "no call is known", "reduced over all", "no reduction is known", "another factor"],
)
def test_negative_control_no_other_job_has_this_name(divisor, told, tmp_path):
    assert "expert-divisor-misses-ep" not in names(diagnosed(tmp_path, divisor, told))


class _TwoByTwo(HandJob):
    """Ranks 0 and 1 go through the same batches, and so do 2 and 3: they share one model, and no token counts twice."""

    def records(self) -> Any:
        found = super().records()
        for rank, records in enumerate(found):
            for place in of_kind(records, "backward"):
                for seen in records[place][0]["losses"]:
                    seen["fingerprint"] = float(rank // 2 * 100 + records[place][0]["id"])
        return found


def test_negative_control_ranks_that_share_their_batches_are_not_counted_twice(tmp_path):
    assert "expert-divisor-misses-ep" not in names(diagnosed(tmp_path, 2, job=_TwoByTwo))


def test_the_head_is_the_last_parameter():
    window = HandJob(COUNTS).windows()[0]

    assert window.columns("head.weight") == slice(window.starts[-2], window.starts[-1])
    assert np.diff(window.starts)[-1] == 80
