"""Cases for tests: the published family, and one that is held back; their scripts are run once."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

from failuremap.catalogue import STAGES, mechanism, render
from failuremap.catalogue.exchange.splits import split_of
from failuremap.catalogue.exchange.tiers import edition_of
from failuremap.catalogue.mechanism import Clause, Mechanism, Stages
from failuremap.catalogue.recording import Recording
from failuremap.catalogue.records.build import build_case
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.run import run

HELD_BACK_GROUP = next(name for name in map("a-group-{}".format, range(99)) if split_of(name) == "held-back")


# fmt: off
def broken(parts):
    return parts[:1]
def attempt(parts):
    return parts[-1:]
def fixed(parts):
    return [max(parts)] if parts else []
def checks(N, solve, check):
    check('largest inside',solve([0,N+1,0]),[N+1])
    check('nothing given',solve([]),[])
# fmt: on


def sample(source: random.Random) -> list[int]:
    """Draw some numbers."""
    return [source.randint(0, 9) for _ in range(3)]


def law(given: Any, solve: Any) -> bool:
    """Say whether the largest is kept."""
    return bool(solve(given) == [max(given)])


SEALED = Mechanism(
    number=999,
    slug="largest-part-missed",
    title="The largest part is missed",
    group=HELD_BACK_GROUP,
    abstract="An abstract of the sealed family.",
    root_cause="A root cause of the sealed family.",
    failure="A failure of the sealed family.",
    failed_approach="The unsuccessful repair of the sealed family.",
    relevance="A relevance of the sealed family.",
    limitations="The limits of the sealed family.",
    contract="Given numbers, return the largest.",
    domain="parts: a list of integers.",
    clauses=(Clause("largest", "algebraic", "It is the largest.", ("largest inside", "nothing given")),),
    promised="",
    law="The largest of the parts is returned.",
    separated_by="what the sealed family is separated by",
    repair="The repair of the sealed family.",
    audit_sees="What an audit of the sealed family sees.",
    references=(),
    related=(),
    published="2026-11-30",
    modified="2026-11-30",
    stages=Stages(broken=broken, attempt=attempt, fixed=fixed, checks=checks, sample=sample, law=law),
)


@cache
def case_of(slug: str, variant: int = 1) -> Case:
    """Make the member form of a case, its scripts run now."""
    entry = SEALED if slug == SEALED.slug else replace(mechanism(slug), related=())
    scripts = {(stage, variant): render(entry, stage, variant) for stage in STAGES}
    recordings = {key: Recording.of(script, run(script)) for key, script in scripts.items()}
    return build_case(entry, variant, recordings, edition_of(entry.group))


def all_cases() -> list[Case]:
    """Two cases of an open family, and one that is held back."""
    open_cases = [case_of("replica-means-ignore-counts", variant) for variant in (1, 2)]
    return [*open_cases, case_of(SEALED.slug)]
