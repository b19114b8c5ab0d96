"""attach on real ranks: every rank steps on what exact fractions say, under every wrapper, rule and dtype."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from aggregate.exact_data import nearest
from aggregate.jobs.scenarios import SCENARIOS, WRAPPERS, Scenario, expected, magnitudes
from aggregate.torch.attached import answers
from audit.harness import JobServer

pytestmark = pytest.mark.torch

# The relative error of one rounding: half the distance from 1 to the next number.
ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# On the way of each contribution: the mean of its units, its weight, one sum for each micro-batch and rank, a division
# by the total, and for a window that is reduced more than once the product that takes it back.
ROUNDINGS = 14


def names_of(wrapper: str) -> list[str]:
    return [name for name in SCENARIOS if name.startswith(f"{wrapper}:")]


def bound(scenario: Scenario, magnitude: Fraction) -> float:
    """The largest error that the roundings can leave in a sum of contributions of this total size."""
    dtype = "bfloat16" if "mixed_precision" in scenario.options else scenario.dtype
    denormal = 2.0**-24 if dtype == "float16" else 0.0
    return ROUNDINGS * (ROUNDING[dtype] * float(magnitude) + denormal)


def fault(scenario: Scenario, ranks: int, answer: dict[str, Any]) -> str:
    """Say what is wrong with what a rank steps on; "" where it is right."""
    sizes = magnitudes(scenario, ranks)
    for layer, exact in expected(scenario, ranks).items():
        actual = answer["gradients"][layer]
        if exact is None or actual is None:
            if exact is not None or actual is not None:
                return f"{layer} is {actual}, expected {exact}"
            continue
        for got, right, size in zip(actual, exact, sizes[layer], strict=True):
            if not abs(got - right) <= bound(scenario, size):  # NaN is no right answer either
                return f"{layer} has {got}, expected {float(right)}"
    return ""


def faults(server: JobServer, names: list[str], ranks: int, *, plain: bool = False) -> dict[str, str]:
    """Return what is wrong, by scenario."""
    found = {}
    seen: dict[str, int] = {}
    for answer in answers(server, "attached.py", [*(["--plain"] if plain else []), *names], ranks):
        name = answer["scenario"]
        seen[name] = seen.get(name, 0) + 1
        if said := fault(SCENARIOS[name], ranks, answer):
            found[name] = f"rank {answer['rank']}: {said}"
    assert seen == dict.fromkeys(names, ranks)
    return found


@pytest.mark.parametrize("ranks", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_rank_steps_on_the_exact_update(job_server: JobServer, wrapper: str, ranks: int) -> None:
    assert faults(job_server, names_of(wrapper), ranks) == {}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_four_ranks_step_on_the_exact_update_of_the_main_cases(job_server: JobServer, wrapper: str) -> None:
    kinds = (
        "unequal",
        "zero on one rank, NaN there",
        "window, sums",
        "window, each reduced, mean",
        "bfloat16",
        "exact",
    )

    assert faults(job_server, [f"{wrapper}: {kind}" for kind in kinds], 4) == {}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_wrapper_alone_fails_the_same_check(job_server: JobServer, wrapper: str) -> None:
    names = [name for name in names_of(wrapper) if "sparse" not in name]

    wrong = faults(job_server, names, 2, plain=True)

    assert set(names) - set(wrong) == {f"{wrapper}: mean"}


def test_a_rule_that_takes_sums_for_means_fails_the_same_check(job_server: JobServer) -> None:
    (answer, _) = answers(job_server, "attached.py", ["ddp: unequal"], 2)

    assert fault(SCENARIOS["ddp: unequal"], 2, answer) == ""
    assert fault(SCENARIOS["ddp: sum"], 2, answer) != ""


def test_exact_sums_are_the_nearest_numbers_to_the_fractions(job_server: JobServer) -> None:
    names = [name for name, scenario in SCENARIOS.items() if scenario.exact and scenario.loss == "sum"]

    found = answers(job_server, "attached.py", names, 4)

    assert {answer["scenario"] for answer in found} == set(names) and len(names) >= 4
    for answer in found:
        for layer, exact in expected(SCENARIOS[answer["scenario"]], 4).items():
            assert answer["gradients"][layer] == [nearest(value, "float32") for value in exact]


def test_the_report_says_what_each_rank_put_in(job_server: JobServer) -> None:
    names = ["ddp: window", "fsdp: zero on one rank, NaN there", "hsdp: window, mean", "ddp: sum", "ddp: all zero"]

    reports = {a["scenario"]: a for a in answers(job_server, "attached.py", names, 4)}

    assert reports["ddp: window"]["counts"] == [6, 13, 7, 11]
    assert reports["ddp: window"]["coefficients"] == ["6/37", "13/37", "7/37", "11/37"]
    assert reports["fsdp: zero on one rank, NaN there"]["coefficients"] == ["1/4", "0", "5/8", "1/8"]
    assert reports["hsdp: window, mean"]["coefficients"] == ["1/4"] * 4
    assert reports["ddp: sum"]["coefficients"] == ["1"] * 4
    assert reports["ddp: all zero"]["counts"] == [0] * 4


def test_without_any_unit_there_is_no_update(job_server: JobServer) -> None:
    names = [f"{wrapper}: all zero" for wrapper in WRAPPERS]

    found = answers(job_server, "attached.py", names, 2)

    assert [answer["updated"] for answer in found] == [False] * 6
    assert {answer["gradients"]["first"] for answer in found} == {None}


def test_a_window_holds_the_bound_that_the_check_uses() -> None:
    assert bound(SCENARIOS["ddp: window"], Fraction(8)) == pytest.approx(14 * 8 / 2**24)
    assert not math.isnan(bound(SCENARIOS["ddp: float16"], Fraction(0)))
