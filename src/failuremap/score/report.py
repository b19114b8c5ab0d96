"""The results of a suite as one report: what each system solves, how sure that is, and how systems differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from failuremap.catalogue.mechanism import VARIANTS
from failuremap.score.results import Result, Season
from failuremap.score.statistics import Estimate, difference, pass_at_k, proportion
from failuremap.score.suite import Suite, families
from failuremap.score.verdict import DIALECT

SCHEMA_VERSION = 1
_KS = (1, 5, 10, 100)
Mark = Literal["solved", "not solved", "missing", "judge-error"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(_Part):
    """A mean over families, with its error clustered by evaluation group."""

    value: float
    standard_error: float | None = Field(description="Null where there are fewer than two groups.")
    low: float | None = Field(description="Lower end of the 95 % interval; null where none can be told.")
    high: float | None
    family_count: int
    group_count: int

    @classmethod
    def of(cls, found: Estimate) -> Interval:
        """Takes over an estimate."""
        return cls(
            value=found.value,
            standard_error=found.standard_error,
            low=found.low,
            high=found.high,
            family_count=found.item_count,
            group_count=found.cluster_count,
        )


class FamilyScore(_Part):
    """What a system made of one family."""

    family: str
    group: str
    marks: tuple[Mark, ...] = Field(description="One for each sample; `judge-error` does not count.")

    @property
    def counted(self) -> tuple[Mark, ...]:
        """The marks that count."""
        return tuple(mark for mark in self.marks if mark != "judge-error")

    def pass_at(self, k: int) -> Fraction:
        """Returns pass@k."""
        return pass_at_k(len(self.counted), self.counted.count("solved"), k)


class SystemScore(_Part):
    """What one system makes of a suite."""

    system: str
    sample_count: int = Field(description="The most samples of a family; those that others lack are not solved.")
    pass_at: dict[int, Interval] = Field(description="k -> pass@k over the families, without bias.")
    groups: dict[str, Interval] = Field(description="Evaluation group -> pass@1 over its families.")
    families: tuple[FamilyScore, ...]
    outcomes: dict[str, int] = Field(description="Outcome -> verdicts.")
    box_levels: dict[str, int] = Field(description="Level of the box -> verdicts.")


class Difference(_Part):
    """pass@1 of one system less that of another, over the families that both have."""

    ours: str
    theirs: str
    difference: Interval


class Report(_Part):
    """The results of a suite."""

    schema_version: int = SCHEMA_VERSION
    suite: Suite
    generator_version: int
    key_commitment: str = Field(description="sha256 of the key that the held-back fixtures are drawn from.")
    key: str | None
    systems: tuple[SystemScore, ...]
    differences: tuple[Difference, ...]

    @property
    def judge_error_count(self) -> int:
        """How many verdicts failed by the judge's own fault."""
        return sum(system.outcomes.get("judge-error", 0) for system in self.systems)


def make_report(season: Season, results: Iterable[Result], systems: Iterable[str] = ()) -> Report:
    """Makes the report of results.

    Args:
        season: What they are of.
        results: One for each sample.
        systems: Systems that have a place in it, even without a result.
    """
    by_system: dict[str, list[Result]] = {system: [] for system in systems}
    for result in results:
        by_system.setdefault(result.system, []).append(result)
    scores = tuple(score_system(season.suite, system, found) for system, found in sorted(by_system.items()))
    return Report(
        suite=season.suite,
        generator_version=season.generator_version,
        key_commitment=season.key_commitment,
        key=season.key,
        systems=scores,
        differences=tuple(compare(one, other) for one, other in combinations(scores, 2)),
    )


def score_system(suite: Suite, system: str, results: list[Result]) -> SystemScore:
    """Scores the results of one system over all families of a suite: a family without a result is not solved."""
    count = max((result.sample for result in results), default=1)
    scores = tuple(
        FamilyScore(family=slug, group=entry.group, marks=_marks([r for r in results if r.family == slug], count))
        for slug, entry in families(suite).items()
    )
    ks = sorted({k for k in (*_KS, count) if k <= count})
    pass_at = {k: found for k in ks if (found := _over(scores, k))}
    names = sorted({score.group for score in scores})
    groups = {name: _over([score for score in scores if score.group == name], 1) for name in names}
    return SystemScore(
        system=system,
        sample_count=count,
        pass_at=pass_at,
        groups={name: found for name, found in groups.items() if found},
        families=scores,
        outcomes=dict(sorted(Counter(result.verdict.outcome for result in results).items())),
        box_levels=dict(sorted(Counter(result.verdict.box_level for result in results).items())),
    )


def compare(ours: SystemScore, theirs: SystemScore) -> Difference:
    """Pairs two systems family by family."""
    others = {score.family: score for score in theirs.families if score.counted}
    pairs = [(score, others[score.family]) for score in ours.families if score.counted and score.family in others]
    found = difference(
        [one.pass_at(1) for one, _ in pairs], [other.pass_at(1) for _, other in pairs], [one.group for one, _ in pairs]
    )
    return Difference(ours=ours.system, theirs=theirs.system, difference=Interval.of(found))


def _over(scores: Iterable[FamilyScore], k: int) -> Interval | None:
    """Takes the mean of pass@k over the families that have k samples which count; None where none has."""
    counted = [score for score in scores if len(score.counted) >= k]
    if not counted:
        return None
    return Interval.of(proportion([score.pass_at(k) for score in counted], [score.group for score in counted]))


def _marks(results: list[Result], count: int) -> tuple[Mark, ...]:
    return tuple(_mark([result for result in results if result.sample == number]) for number in range(1, count + 1))


def _mark(results: list[Result]) -> Mark:
    """Says of one sample of a family whether it solves it: all variants, each with its held-back fixtures."""
    if not results:
        return "missing"
    outcomes = {result.verdict.outcome for result in results}
    if outcomes - {"accepted", "judge-error"}:
        return "not solved"
    # a family's number has one hyphen, a case's two
    whole = any(result.case.count("-") == 1 for result in results)
    if not whole and len(results) < len(VARIANTS):
        return "missing"
    return "judge-error" if "judge-error" in outcomes else "solved"


def to_json(report: Report) -> str:
    """Writes a report as JSON, keys in the order of the schema."""
    return report.model_dump_json(indent=2) + "\n"


def schema_text() -> str:
    """Returns the text of the published schema, `docs/score-report.schema.json`."""
    schema: dict[str, Any] = {"$schema": DIALECT, **Report.model_json_schema(mode="serialization")}
    schema["properties"]["schema_version"] = {"const": SCHEMA_VERSION, "title": "Schema Version", "type": "integer"}
    return json.dumps(schema, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
