"""Does each stage do what its entry says of it? Proved on random inputs, in exact fractions."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from failuremap.catalogue.mechanism import Mechanism, Stage, Stages
from failuremap.rules import known_rule

_SAMPLES = 200
# A stage's float result is a quotient of exact sums: one or two roundings of 2^-53, relative to the largest term.
_ROUNDING = Fraction(1, 2**50)

Solve = Callable[[Any], Any]


def claim_problem(entry: Mechanism, stage: Stage, sample_count: int = _SAMPLES) -> str:
    """Says where a stage is not what its entry claims, on random inputs; "" where nowhere.

    The fixed stage keeps the promised rule, and the law where there is one, on every input. A broken one follows the
    rule that is named for it on every input, and leaves what is promised on some. No stage changes its input.
    """
    stages = entry.stages
    assert stages is not None
    source = random.Random(f"{entry.slug} {stage}")
    samples = [stages.sample(source) for _ in range(sample_count)]
    solve = _leaving_input(stages.function(stage))
    named = entry.rule_of(stage)
    if named:
        problem = _first(samples, lambda given: _deviation(stages, solve, named, given))
        if problem:
            return f"{stage} doesn't follow {named}: {problem}"
    if stage == "fixed":
        problem = _first(samples, lambda given: _broken_law(stages, solve, given))
        return f"fixed breaks the law: {problem}" if problem else ""
    return _never_wrong(entry, stages, stage, samples)


def _never_wrong(entry: Mechanism, stages: Stages, stage: Stage, samples: list[Any]) -> str:
    """Says that a stage kept all that is promised on every sample; "" where it failed on one, as it should."""
    for given in samples:
        wrong = _broken_law(stages, stages.function(stage), given)
        if entry.promised:
            wrong = wrong or _deviation(stages, stages.function(stage), entry.promised, given)
        if wrong:
            return ""
    return f"{stage} keeps what is promised on all {len(samples)} samples"


def _first(samples: list[Any], problem_of: Callable[[Any], str]) -> str:
    return next((problem for given in samples if (problem := problem_of(given))), "")


def _leaving_input(solve: Solve) -> Solve:
    """Makes a stage that refuses to change what it is given."""

    def watched(given: Any) -> Any:
        before = repr(given)
        result = solve(given)
        assert repr(given) == before, f"{before} was changed to {given} by the call"
        return result

    return watched


def _broken_law(stages: Stages, solve: Solve, given: Any) -> str:
    if stages.law is None or stages.law(copy.deepcopy(given), solve):
        return ""
    return f"{given} gave {solve(copy.deepcopy(given))}"


def _deviation(stages: Stages, solve: Solve, rule_name: str, given: Any) -> str:
    """Says how a stage's result differs from the sum of its rule's weights times the contributions."""
    assert stages.contributions is not None, "a rule is promised, but the file has no contributions()"
    gradients, layout = stages.contributions(given)
    weights = known_rule(rule_name).coefficients(layout)
    # A contribution of weight 0 is skipped, not multiplied by it: its gradient may be nan.
    terms = [[w * Fraction(value) for value in g] for w, g in zip(weights, gradients, strict=True) if w]
    columns = list(zip(*terms, strict=True))
    actual = solve(given)
    if len(actual) == len(columns) and all(map(_is_sum, actual, columns)):
        return ""
    return f"{given} gave {actual}, not {[float(sum(column)) for column in columns]}"


def _is_sum(seen: Any, terms: tuple[Fraction, ...]) -> bool:
    """True where a number is the sum of these terms, but for the rounding of a quotient."""
    error = Fraction(seen) - sum(terms)
    return not error or abs(error) <= _ROUNDING * max(map(abs, terms)) * len(terms)
