"""The trials of every family put to the judge, and all escapes tried: whether each ended as it must."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.shelf import mechanisms
from failuremap.score.box import sound_level
from failuremap.score.judge import judge
from failuremap.score.limits import Limits
from failuremap.score.selftest.attacks import attacks
from failuremap.score.selftest.baselines import baselines
from failuremap.score.selftest.escapes import ESCAPES, Escape, attempt
from failuremap.score.selftest.honest import honest
from failuremap.score.selftest.mutated import mutated
from failuremap.score.selftest.trial import Trial
from failuremap.score.verdict import Verdict

_LIMITS = Limits(cpu_s=2)
_QUICK_ESCAPES = 10
_STEPS = (17, 19, 23)

Judge = Callable[[bytes, str], Verdict]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Check(_Part):
    """What came of one trial, or of one escape."""

    kind: str = Field(description="baseline, honest, attack, mutant or escape.")
    family: str = Field(description="Slug of the mechanism; empty of an escape.")
    name: str
    outcome: str = Field(description="What the judge said, or what an escape came to.")
    holds: bool = Field(description="It is what it must be.")
    equivalent: bool = Field(default=False, description="A mutant that is the same function, and so is accepted.")


class Selftest(_Part):
    """What came of all of them."""

    checks: tuple[Check, ...]
    box_level: str | None = Field(description="Level at which the escapes were tried; null where no sound box opens.")

    @property
    def failures(self) -> list[Check]:
        """Those that did not end as they must."""
        return [check for check in self.checks if not check.holds]

    @property
    def holds(self) -> bool:
        """True where the judge can be relied on: a sound box opens, and all ended as they must."""
        return self.box_level is not None and not self.failures

    def counts(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Counts, by family and kind, those that hold and all; equivalent mutants are left out."""
        counted = [check for check in self.checks if not check.equivalent]
        every = Counter((check.family, check.kind) for check in counted)
        held = Counter((check.family, check.kind) for check in counted if check.holds)
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for (family, kind), count in every.items():
            found.setdefault(family, {})[kind] = held[family, kind], count
        return found


class Plan(NamedTuple):
    """What a selftest tries."""

    trials: list[tuple[Mechanism, Trial]]
    escapes: list[Escape]

    @property
    def check_count(self) -> int:
        """How many checks come of it."""
        return len(self.trials) + len(self.escapes)


def plan(*, quick: bool = False, families: Iterable[Mechanism] | None = None) -> Plan:
    """Lists the trials of families, and the escapes.

    Args:
        quick: One trial of each kind a family, another for each, and every tenth escape.
        families: Those that have code where none are given.
    """
    entries = [entry for entry in mechanisms().values() if entry.stages] if families is None else families
    trials = []
    for place, entry in enumerate(entries):
        for kind in (baselines, honest, attacks, mutated):
            every = list(kind(entry))
            trials += [(entry, trial) for trial in (_one_of(every, place) if quick else every)]
    return Plan(trials, list(ESCAPES[:: _QUICK_ESCAPES if quick else 1]))


def selftest(
    planned: Plan,
    on_check: Callable[[Check], None] = lambda _: None,
    *,
    job_count: int = 1,
    judge_source: Judge | None = None,
) -> Selftest:
    """Puts to the judge what it must accept and what it must not, and tries the escapes.

    Args:
        planned: What to try.
        on_check: Gets each check as it comes.
        job_count: How many trials at once.
        judge_source: The judge under test: source, slug -> verdict.
    """
    put, level, checks = judge_source or _judge, sound_level(), []
    with ThreadPoolExecutor(job_count) as pool:
        tried = pool.map(lambda pair: _tried(pair[0], pair[1], put), planned.trials)
        # one at a time: an escape is known by what it does to this machine
        escaped = (_escaped(each, level) for each in planned.escapes if level)
        for check in chain(tried, escaped):
            checks.append(check)
            on_check(check)
    return Selftest(checks=tuple(checks), box_level=level)


def _one_of(trials: list[Trial], place: int) -> list[Trial]:
    """Takes another one for each place, far from that before: with a step that divides no multiple of their number."""
    step = next(prime for prime in _STEPS if len(trials) % prime)
    return [trials[place * step % len(trials)]]


def _judge(source: bytes, case: str) -> Verdict:
    return judge(source, case, limits=_LIMITS)


def _tried(entry: Mechanism, trial: Trial, put: Judge) -> Check:
    verdict = put(trial.source.encode(), entry.slug)
    holds = verdict.outcome != "judge-error" and verdict.accepted == trial.to_accept
    return Check(
        kind=trial.kind,
        family=entry.slug,
        name=trial.name,
        outcome=verdict.outcome,
        holds=holds,
        equivalent=bool(trial.equivalent),
    )


def _escaped(escape: Escape, level: str) -> Check:
    tried = attempt(escape, level)
    return Check(
        kind="escape",
        family="",
        name=escape.name,
        outcome=tried.got_out or tried.reason,
        holds=tried.got_out is None,
    )


def to_json(found: Selftest) -> str:
    """Writes a selftest as JSON: whether it holds, and each check."""
    return json.dumps({"holds": found.holds, **found.model_dump()}, indent=2, ensure_ascii=False) + "\n"
