"""Holds each mechanism to its claims: the broken stages fail, the fixed one passes, each follows its rule."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from failuremap.catalogue.claims import claim_problem
from failuremap.catalogue.mechanism import STAGES, VARIANTS, Mechanism, Stage
from failuremap.catalogue.render import render
from failuremap.catalogue.run import Run, run
from failuremap.catalogue.shelf import mechanism, mechanisms

_AT_ONCE = 2


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
    problem = _problem(stage, seen) or (claim_problem(entry, stage) if variant == VARIANTS[0] else "")
    failed = tuple(seen.failed_checks)
    return StageResult(entry.slug, stage, variant, seen.exit_code, len(seen.observations), failed, problem)


def _problem(stage: Stage, seen: Run) -> str:
    """Says why a run is not what the stage should show."""
    if seen.exit_code is None or not seen.observations:
        return f"the script gave no observations: {seen.stderr.strip()[-300:] or 'it printed no report'}"
    if stage == "fixed" and (seen.failed_checks or seen.exit_code != 0):
        return f"fixed fails: {', '.join(seen.failed_checks)} (exit code {seen.exit_code})"
    if stage != "fixed" and (not seen.failed_checks or seen.exit_code != 1):
        return f"{stage} should fail a check and exit with 1; exit code {seen.exit_code}"
    return ""
