"""Holds each mechanism to its claims and its records: the scripts give what was recorded, each stage what it should."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from failuremap.catalogue.claims import claim_problem
from failuremap.catalogue.mechanism import STAGES, VARIANTS, Mechanism, Stage
from failuremap.catalogue.recording import Recording, difference, read_recordings, write_recordings
from failuremap.catalogue.render import render
from failuremap.catalogue.run import Run, run
from failuremap.catalogue.shelf import case_of, mechanisms

_MOST_AT_ONCE = 16


class Job(NamedTuple):
    """One script to run: a stage of a mechanism, for N = variant."""

    entry: Mechanism
    stage: Stage
    variant: int


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
    """Why the entry's claim does not hold, or what differs from the record; "" where all is as it should be."""
    duration_s: float = 0.0
    recording: Recording | None = None
    """What the run gave, as it would be recorded; None where it came to no end of its own."""

    @property
    def holds(self) -> bool:
        """True where the stage does what its entry claims, and what was recorded."""
        return not self.problem


def verify(
    names: Collection[str] | None = None,
    on_progress: Callable[[StageResult], None] | None = None,
    *,
    against_records: bool = True,
) -> list[StageResult]:
    """Runs all stages and variants of the mechanisms that have code, as many at once as there are processors.

    Args:
        names: Mechanisms or cases to verify, by slug, id or alias; all where it is not given. One without code gives
            no result.
        on_progress: Called with each result, in order, as it comes.
        against_records: Compare each run with the recorded one.

    Raises:
        InvalidArgument: A name is that of no mechanism and no case.
        RecordError: A file of recorded runs can't be read.
    """
    pool = ThreadPoolExecutor(at_once())
    results = []
    try:
        for result in pool.map(lambda job: _verified(job, against_records), list(jobs_of(names))):
            results.append(result)
            if on_progress:
                on_progress(result)
    finally:
        pool.shutdown(cancel_futures=True)
    return results


def jobs_of(names: Collection[str] | None = None) -> Iterator[Job]:
    """Yields the scripts that `verify` runs for these names."""
    chosen = [(entry, None) for entry in mechanisms().values()] if names is None else [case_of(name) for name in names]
    for entry, variant in chosen:
        if entry.stages:
            yield from (Job(entry, stage, n) for stage in STAGES for n in ((variant,) if variant else VARIANTS))


def verify_stage(entry: Mechanism, stage: Stage, variant: int) -> StageResult:
    """Runs one stage of one variant and holds it, and the rule that it follows, to the entry's claims."""
    return _verified(Job(entry, stage, variant), against_records=False)


def record(results: Collection[StageResult]) -> list[str]:
    """Writes the runs of each mechanism of which all variants of all stages hold; returns their slugs.

    Args:
        results: What `verify` gave with `against_records=False`.
    """
    written = []
    for slug in dict.fromkeys(result.slug for result in results):
        own = [result for result in results if result.slug == slug]
        recordings = {(one.stage, one.variant): one.recording for one in own if one.holds and one.recording}
        if len(recordings) == len(STAGES) * len(VARIANTS):
            write_recordings(slug, recordings)
            written.append(slug)
    return written


def _verified(job: Job, against_records: bool) -> StageResult:
    entry, stage, variant = job
    script, started = render(entry, stage, variant), time.monotonic()
    seen = run(script)
    duration_s = time.monotonic() - started
    recording = Recording.of(script, seen) if seen.exit_code is not None else None
    problem = _problem(stage, seen)
    if against_records and recording and not problem:
        problem = difference(entry.slug, read_recordings(entry.slug).get((stage, variant)), recording)
    if variant == VARIANTS[0] and not problem:
        problem = claim_problem(entry, stage)
    failed = tuple(seen.failed_checks)
    count = len(seen.observations)
    return StageResult(entry.slug, stage, variant, seen.exit_code, count, failed, problem, duration_s, recording)


def _problem(stage: Stage, seen: Run) -> str:
    """Says why a run is not what the stage should show."""
    if seen.stopped:
        return f"stopped: {seen.stopped}"
    if not seen.observations:
        return f"the script gave no observations: {seen.stderr.strip()[-300:] or 'it printed no report'}"
    if stage == "fixed" and (seen.failed_checks or seen.exit_code != 0):
        return f"fixed fails: {', '.join(seen.failed_checks)} (exit code {seen.exit_code})"
    if stage != "fixed" and (not seen.failed_checks or seen.exit_code != 1):
        return f"{stage} should fail a check and exit with 1; exit code {seen.exit_code}"
    return ""


def at_once() -> int:
    """Returns how many scripts may run at a time: the processors that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _MOST_AT_ONCE)
