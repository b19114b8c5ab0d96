"""torchft: what is divided by is what arrived, and a step that lost a replica, or a part of a sum, is void."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from failuremap.errors import InvalidArgument

pytestmark = pytest.mark.torch

JOB = Path(__file__).parents[1] / "jobs" / "lost_replica.py"
SURVIVORS = (0, 1)


@pytest.fixture(scope="module")
def steps() -> dict[str, dict[int, dict[str, Any]]]:
    """What each step of the job gave, by replica."""
    run = subprocess.run(
        [sys.executable, str(JOB)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-4000:]
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for line in map(json.loads, run.stdout.splitlines()):
        found.setdefault(line.pop("step"), {})[line.pop("replica")] = line
    return found


def rounded(*values: float) -> Any:
    """Return numbers as float32 holds them after a product, two sums and a division."""
    return pytest.approx(list(values), rel=4 * 2**-24)


@pytest.mark.slow
@pytest.mark.torchft
@pytest.mark.parametrize(
    ("step", "counts", "wide", "narrow", "rare"),
    [
        ("sum", [1, 1, 1], (6, -3), [258.0], [6.0]),  # 257.5 lies between two numbers of bfloat16
        ("mean", [1, 1, 1], (2, -1), [86.0], [2.0]),
        ("weighted", [1, 2, 3], (14 / 6, -8 / 6), [43.25], [2.0]),
        ("zero count", [1, 0, 3], (2.5, -1.5), [64.5], None),  # the NaN of replica 1 goes nowhere
    ],
)
def test_replicas_are_combined_by_the_rule(
    steps: dict[str, dict[int, dict[str, Any]]],
    step: str,
    counts: list[int],
    wide: tuple[float, ...],
    narrow: list[float],
    rare: list[float] | None,
) -> None:
    right = {"stepped": True, "counts": counts, "reason": "", "narrow": narrow, "rare": rare, "unused": None}

    assert steps[step] == {replica: {**right, "wide": rounded(*wide)} for replica in (0, 1, 2)}


@pytest.mark.slow
@pytest.mark.torchft
def test_where_no_replica_has_units_there_is_no_update(steps: dict[str, dict[int, dict[str, Any]]]) -> None:
    none = dict.fromkeys(("wide", "narrow", "rare", "unused"))

    assert steps["no count"] == {
        replica: {"stepped": False, "counts": [0, 0, 0], "reason": "", **none} for replica in (0, 1, 2)
    }


@pytest.mark.slow
@pytest.mark.torchft
def test_a_step_during_which_a_replica_is_lost_is_void(steps: dict[str, dict[int, dict[str, Any]]]) -> None:
    assert set(steps["lost"]) == set(SURVIVORS)
    for got in steps["lost"].values():
        assert got["reason"].startswith("RuntimeError: ")
        assert (got["stepped"], got["counts"], got["wide"], got["narrow"]) == (False, None, None, None)


@pytest.mark.slow
@pytest.mark.torchft
def test_the_mean_over_those_who_arrived_uses_their_counts(steps: dict[str, dict[int, dict[str, Any]]]) -> None:
    for replica in SURVIVORS:
        got = steps["weighted over two"][replica]
        assert (got["stepped"], got["counts"]) == (True, [1, 2])
        assert got["wide"] == rounded(5 / 3, -2 / 3)


@pytest.mark.slow
@pytest.mark.torchft
def test_negative_control_torchft_s_own_mean_does_not(steps: dict[str, dict[int, dict[str, Any]]]) -> None:
    assert steps["torchft's own mean"][0]["wide"] == [1.5, -0.5]


@pytest.mark.slow
@pytest.mark.torchft
def test_a_sum_of_which_a_part_is_missing_is_void(steps: dict[str, dict[int, dict[str, Any]]]) -> None:
    for replica in SURVIVORS:
        got = steps["sum over two"][replica]
        assert got["reason"] == "RuntimeError: 2 of 3 parts arrived, and a sum needs them all"
        assert (got["stepped"], got["counts"], got["wide"]) == (False, None, None)


class Idle:
    """A manager that is never asked to send anything."""

    def participating_rank(self) -> int:
        """Return a place."""
        return 4


def quorum(rule: str = "weighted_mean", **options: Any) -> Any:
    """Make a quorum of a small model."""
    import torch

    from failuremap.aggregate.torch.quorum import Quorum

    return Quorum(Idle(), torch.nn.Linear(1, 1), rule, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "replica_count"), [("sum", None), ("sum", 0), ("sum", True), ("mean", 3), ("weighted_mean", 0)]
)
def test_a_number_of_replicas_is_for_a_sum_alone(rule: str, replica_count: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        quorum(rule, replica_count=replica_count)

    assert str(refused.value) == (
        f"replica_count={replica_count!r} with rule={rule!r}; for a sum say how many replicas hold a part, 1 or more, "
        "and for the other rules leave it out."
    )


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(
        InvalidArgument, match=r"^rule='avg' is not known; expected one of: weighted_mean, sum, mean\.$"
    ):
        quorum("avg")


def test_a_model_that_trains_nothing_is_refused() -> None:
    import torch

    from failuremap.aggregate.torch.quorum import Quorum

    with pytest.raises(InvalidArgument, match=r"^model has no parameter that requires a gradient\.$"):
        Quorum(Idle(), torch.nn.ReLU())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "count", "message"),
    [
        ("weighted_mean", None, "count=None on rank 4 is missing; expected the number of units"),
        ("weighted_mean", -1, "count=-1 on rank 4 is negative; expected the number of units"),
        ("mean", 3, "count=3 on rank 4, but rule='mean' doesn't use counts; leave it out,"),
    ],
)
def test_a_count_that_is_none_is_refused(rule: str, count: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        quorum(rule).step(count)

    assert str(refused.value).startswith(message)
