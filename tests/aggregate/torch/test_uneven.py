"""Under Join, ranks may have different numbers of steps: each step is the rule over those that still have data."""

from __future__ import annotations

from fractions import Fraction

import pytest

from aggregate.jobs.scenarios import unit
from aggregate.torch.attached import answers
from audit.harness import JobServer

pytestmark = pytest.mark.torch

RANKS = 3
BOUND = 2e-6  # of numbers up to 8, from about ten roundings of float32


def has_data(rank: int, epoch: int, step: int) -> bool:
    return step < (2 * rank + 1 if epoch == 0 else 2)


def expected(rule: str, epoch: int, step: int) -> list[Fraction]:
    counts = {rank: rank + step + 1 for rank in range(RANKS) if has_data(rank, epoch, step)}
    units = {rank: [unit(rank, step, index) for index in range(count)] for rank, count in counts.items()}
    means = {r: [Fraction(sum(column), counts[r]) for column in zip(*rows, strict=True)] for r, rows in units.items()}
    weights = {
        "weighted_mean": {rank: Fraction(count, sum(counts.values())) for rank, count in counts.items()},
        "mean": {rank: Fraction(1, len(counts)) for rank in counts},
        "sum": {rank: Fraction(1) for rank in counts},
    }[rule]
    return [sum((weights[r] * mean[column] for r, mean in means.items()), Fraction(0)) for column in range(7)]


def is_right(answer: dict, rule: str) -> bool:
    exact = expected(rule, answer["epoch"], answer["step"])
    return all(abs(got - right) <= BOUND for got, right in zip(answer["first"], exact, strict=True))


@pytest.mark.parametrize("args", [["weighted_mean"], ["mean"], ["sum"], ["weighted_mean", "exact"]])
def test_every_step_is_the_rule_over_the_ranks_that_have_data(job_server: JobServer, args: list[str]) -> None:
    found = answers(job_server, "uneven.py", args, RANKS)

    assert len(found) == 1 + 3 + 5 + 3 * 2
    assert [answer for answer in found if not is_right(answer, args[0])] == []
    for answer in found:
        joined = [rank for rank in range(RANKS) if not has_data(rank, answer["epoch"], answer["step"])]
        assert answer["joined"] == joined
        assert [int(rank) for rank, count in answer["counts"].items() if not count] == joined


def test_the_wrapper_alone_fails_the_same_check(job_server: JobServer) -> None:
    found = answers(job_server, "uneven.py", ["weighted_mean", "plain"], RANKS)

    assert not any(is_right(answer, "weighted_mean") for answer in found if answer["step"] < 3)
