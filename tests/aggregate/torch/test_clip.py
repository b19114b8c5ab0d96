"""clip_grad_norm_ counts every logical element once, whatever it is sharded over, with one factor on all ranks."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aggregate.torch.attached import answers
from audit.harness import JobServer

pytestmark = pytest.mark.torch

PLACEMENTS = ["plain", "sharded", "replicated", "replicas of shards", "shards of columns", "replicated twice"]
GRADIENTS = {name: [float(value - index) for value in range(20)] for index, name in enumerate(PLACEMENTS)}


@pytest.fixture(scope="module")
def clipped(job_server: JobServer) -> list[dict[str, Any]]:
    """What each of four ranks got."""
    return answers(job_server, "clipped.py", [], 4)


def norm_of(values: list[float], p: float) -> float:
    if p == math.inf:
        return max(map(abs, values))
    return math.fsum(abs(value) ** p for value in values) ** (1 / p)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_the_norm_of_one_gradient_is_that_of_its_elements(clipped: list[dict[str, Any]], name: str) -> None:
    values = [float(value) for value in range(20)]  # one alone is the first
    for answer in clipped:
        assert answer[name]["norm"] == pytest.approx(norm_of(values, 2), rel=1e-7)
        factor = 1.0 / (norm_of(values, 2) + 1e-6)
        assert answer[name]["after"] == [pytest.approx([value * factor for value in values], rel=1e-6)]


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5, math.inf])
def test_plain_and_sharded_gradients_have_one_norm_and_one_factor(clipped: list[dict[str, Any]], p: float) -> None:
    norm = norm_of([value for values in GRADIENTS.values() for value in values], p)
    for answer in clipped:
        assert answer[f"all {p}"]["norm"] == pytest.approx(norm, rel=1e-7)
        for values, after in zip(GRADIENTS.values(), answer[f"all {p}"]["after"], strict=True):
            assert after == pytest.approx([value * 2.0 / (norm + 1e-6) for value in values], rel=1e-6)
    assert all(answer[f"all {p}"] == clipped[0][f"all {p}"] for answer in clipped)


def test_a_norm_within_the_limit_changes_nothing(clipped: list[dict[str, Any]]) -> None:
    assert all(answer["not clipped"]["after"] == list(GRADIENTS.values()) for answer in clipped)


def test_a_gradient_that_is_there_on_one_rank_alone_hangs_nobody(clipped: list[dict[str, Any]]) -> None:
    own = norm_of([float(value) for value in range(8)], 2)  # rank 0 holds 2 of 5 rows

    assert [answer["a gradient on one rank"] for answer in clipped] == pytest.approx([own] * 4)
    assert [answer["none"] for answer in clipped] == [0.0] * 4


def test_a_sparse_gradient_is_added_up_before_its_norm(clipped: list[dict[str, Any]]) -> None:
    assert clipped[0]["sparse"] == 5.0
    assert clipped[0]["sparse after"] == pytest.approx([0, 0, 3 / 5, 4 / 5, 0, 0], rel=1e-6)


def test_a_norm_that_is_not_finite_raises_where_it_shall(clipped: list[dict[str, Any]]) -> None:
    message = "norm=inf of the gradients is not finite (norm_type=2.0); no gradient was changed."

    assert clipped[0]["infinite {'error_if_nonfinite': True}"] == message
    assert clipped[0]["infinite {}"] == "inf" and clipped[0]["infinite after"]


def test_numbers_that_are_none_and_pending_sums_are_refused(clipped: list[dict[str, Any]]) -> None:
    pending = "a gradient has the placements (Partial(sum),): a sum that is still pending has no norm. "

    assert clipped[1]["refused"] == [
        f"{pending}Redistribute it to Replicate or Shard first.",
        "max_norm=0.0; expected a number above 0.",
        "max_norm=True; expected a number above 0.",
        "norm_type=-1; expected a number above 0.",
    ]


def test_torchs_own_and_the_squares_of_all_ranks_fail_the_same_check(clipped: list[dict[str, Any]]) -> None:
    norm = norm_of([float(value) for value in range(20)], 2)

    assert "mixed torch.Tensor and DTensor" in clipped[0]["torch's own"]
    assert clipped[0]["squares of all ranks"] == pytest.approx(norm * math.sqrt(2))  # the replicas counted twice
