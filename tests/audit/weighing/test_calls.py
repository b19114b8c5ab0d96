"""Lines that each pass calls several times: parts of one loss, or terms."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import edited
from audit.traces import HandJob, loss, of_kind
from failuremap.audit import diagnose

COUNTS = np.array([[400, 300], [100, 60]])
"""Units by rank and call."""
OF_ALL = COUNTS / COUNTS.sum(axis=0)
"""What a call of a rank weighs where each head's units are a mean over both ranks."""


def looping(folder, weights_RC, counts_RC=COUNTS, calls=(2, 2)):
    """The verdict on two ranks that call one line several times in each pass, and add their gradients up."""

    def edit(rank, records):
        for number, place in enumerate(of_kind(records, "backward")):
            records[place][0]["losses"] = [
                loss(int(counts_RC[rank][call]), float(weights_RC[rank][call]), fingerprint=rank + call + number / 7)
                for call in reversed(range(calls[rank]))
            ]
        return records

    job = HandJob([[1], [1]], lambda window: window.combined(1.0))
    return diagnose(edited(job, folder, edit))


def slugs(verdict):
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def test_heads_with_weights_of_their_own_that_are_means_are_right(tmp_path):
    verdict = looping(tmp_path, OF_ALL * [1.0, 0.3])

    assert verdict.outcome == "right"
    assert (
        "cross_entropy at train.py:41 (2 calls in each pass): read as terms with weights of their own, as of several "
        "heads, and not as one mean (3 of 3 steps)"
    ) in verdict.notes


def test_heads_of_ranks_that_average_their_own_means_are_named(tmp_path):
    verdict = looping(tmp_path, np.full((2, 2), 0.5) * [1.0, 0.3])

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["replica-means-ignore-counts"])
    assert [finding.term for finding in verdict.findings] == [
        "cross_entropy(mean) at train.py:41 (call 2)",
        "cross_entropy(mean) at train.py:41 (call 1)",
    ]


@pytest.mark.parametrize(
    ("weights", "calls"),
    [
        (OF_ALL * [0.5, 0.5], (2, 2)),
        (OF_ALL * [[1.0, 0.3], [0.8, 0.9]], (2, 2)),
        (np.array([[0.5, 0.2], [0.5, 0.0]]), (2, 1)),
    ],
    ids=["parts that are averaged one by one", "by no rule", "another number of calls on each rank"],
)
def test_negative_control_other_weights_of_calls_settle_nothing(weights, calls, tmp_path):
    assert looping(tmp_path, weights, calls=calls).outcome == "cannot tell"


def test_negative_control_parts_of_one_mean_are_read_as_one(tmp_path):
    verdict = looping(tmp_path, COUNTS / COUNTS.sum())

    assert (verdict.outcome, verdict.notes) == ("right", [])
