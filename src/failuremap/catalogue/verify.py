"""Holds each mechanism to its claims: the broken stages fail, the fixed one passes, each follows its rule."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

from failuremap.catalogue.mechanism import STAGES, VARIANTS, Mechanism, Stage, Stages
from failuremap.catalogue.render import render
from failuremap.catalogue.run import Run, run
from failuremap.catalogue.shelf import mechanism, mechanisms
from failuremap.rules import known_rule

_AT_ONCE = 2
_SAMPLES = 200
# A stage's float result is a quotient of exact sums: one or two roundings of 2^-53, relative to the largest term.
_ROUNDING = Fraction(1, 2**50)


@dataclass(frozen=True)
class StageResult:
    """What the run of one stage and variant showed."""

    slug: str
    stage: Stage
    variant: int
    exit_code: int | None
    check_count: int
    failed_checks: tuple[str, ...]
    problem: str
    """Why the entry's claim does not hold; "" where it does."""

    @property
    def holds(self) -> bool:
        """True where the stage does what its entry claims."""
        return not self.problem


def verify(
    slugs: Collection[str] | None = None, on_progress: Callable[[StageResult], None] | None = None
) -> list[StageResult]:
    """Runs all stages and variants of the mechanisms that have code.

    Args:
        slugs: Mechanisms to verify; all where it is not given. One without code gives no result.
        on_progress: Called with each result, in order, as it comes.

    Raises:
        InvalidArgument: A slug names no mechanism.
    """
    entries = list(mechanisms().values()) if slugs is None else [mechanism(slug) for slug in slugs]
    jobs = [(entry, stage, variant) for entry in entries if entry.stages for stage in STAGES for variant in VARIANTS]
    results = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for result in pool.map(lambda job: verify_stage(*job), jobs):
            results.append(result)
            if on_progress:
                on_progress(result)
    return results


def verify_stage(entry: Mechanism, stage: Stage, variant: int) -> StageResult:
    """Runs one stage of one variant and holds it, and the rule that it follows, to the entry's claims."""
    seen = run(render(entry, stage, variant))
    problem = _problem(stage, seen) or (rule_problem(entry, stage) if variant == VARIANTS[0] else "")
    failed = tuple(seen.failed_checks)
    return StageResult(entry.slug, stage, variant, seen.exit_code, len(seen.observations), failed, problem)


def rule_problem(entry: Mechanism, stage: Stage, sample_count: int = _SAMPLES) -> str:
    """Says where a stage's function leaves the rule that it is said to follow, on random inputs; "" where nowhere."""
    assert entry.stages is not None
    source = random.Random(f"{entry.slug} {stage}")
    for _ in range(sample_count):
        problem = _deviation(entry.stages, stage, entry.rule_of(stage), entry.stages.sample(source))
        if problem:
            return problem
    return ""


def _problem(stage: Stage, seen: Run) -> str:
    """Says why a run is not what the stage should show."""
    if seen.exit_code is None or not seen.observations:
        return f"the script gave no observations: {seen.stderr.strip()[-300:] or 'it printed no report'}"
    if stage == "fixed" and (seen.failed_checks or seen.exit_code != 0):
        return f"fixed fails: {', '.join(seen.failed_checks)} (exit code {seen.exit_code})"
    if stage != "fixed" and (not seen.failed_checks or seen.exit_code != 1):
        return f"{stage} should fail a check and exit with 1; exit code {seen.exit_code}"
    return ""


def _deviation(stages: Stages, stage: Stage, rule_name: str, given: object) -> str:
    """Says how a stage's result differs from the sum of its rule's weights times the contributions."""
    gradients, layout = stages.contributions(given)
    weights = known_rule(rule_name).coefficients(layout)
    terms = [[weight * Fraction(value) for value in g] for weight, g in zip(weights, gradients, strict=True)]
    expected = [sum(column) for column in zip(*terms, strict=True)]
    bounds = [_ROUNDING * max(map(abs, column)) * len(column) for column in zip(*terms, strict=True)]
    actual = stages.function(stage)(given)
    close = len(actual) == len(expected) and all(
        abs(Fraction(seen) - right) <= bound for seen, right, bound in zip(actual, expected, bounds, strict=True)
    )
    return (
        "" if close else f"{stage} doesn't follow {rule_name}: {given} gave {actual}, not {list(map(float, expected))}"
    )
