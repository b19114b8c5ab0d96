"""What the parts of one case must agree on: stages, labels, commitments, digest; each disagreement is one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from failuremap.catalogue.records.digest import WITHHELD, open_commitment, record_digest, value_at

if TYPE_CHECKING:
    from failuremap.catalogue.records.model import Case
    from failuremap.catalogue.records.parts import Run


def disagreements(case: Case) -> Iterator[str]:
    """Yields what a case says in two places that do not agree, field first."""
    yield from _numbers(case)
    yield from _form(case)
    for stage, run in case.runs().items():
        yield from _stage(case, stage, run)
    yield from _clauses(case)
    yield from _digests(case)


def _numbers(case: Case) -> Iterator[str]:
    if not case.id.endswith(f"-{case.variant}"):
        yield f"variant={case.variant}, but id={case.id!r} is that of variant {case.id[-1]}"
    if case.rules.promised is None and case.rules.law is None:
        yield "rules: promised and law are both null; a contract states one of them"
    if case.modified < case.published:
        yield f"modified={case.modified!r} is before published={case.published!r}"


def _form(case: Case) -> Iterator[str]:
    """The open form holds nothing that is withheld; the member form holds all of it."""
    document = case.document()
    held = [path for path in WITHHELD if value_at(document, path) is not None]
    missing = [path for path in WITHHELD if path not in held]
    if held and missing:
        yield f"{missing[0]} is missing, but {held[0]} is there; a record holds all that is withheld, or none of it"
    for name in ("salts", "canary"):
        if (getattr(case.member_only, name) is not None) != bool(held):
            yield f"member_only.{name} stands in the member form and nowhere else, with {', '.join(WITHHELD)}"
    if held and set(case.member_only.salts or ()) != set(WITHHELD):
        yield f"member_only.salts={sorted(case.member_only.salts or ())}; expected one for each of {list(WITHHELD)}"


def _stage(case: Case, stage: str, run: Run) -> Iterator[str]:
    """The repair passes and the others fail, all on the same checks."""
    where, first = f"verification.{stage}", case.verification.broken
    if run.passed != (stage == "fixed"):
        wanted = "pass every check" if stage == "fixed" else "fail a check"
        yield f"{where}.passed={run.passed}; {stage} has to {wanted}"
    if len(run.labels) != case.checks:
        yield f"checks={case.checks}, but {where} has {len(run.labels)} observations"
    if run.labels != first.labels:
        yield f"{where} has the checks {list(run.labels)}; verification.broken has {list(first.labels)}"
    for seen, other in zip(run.observations, first.observations, strict=False):
        if seen.expected != other.expected:
            yield f"{where} expects {seen.expected} of check={seen.check!r}; verification.broken {other.expected}"


def _clauses(case: Case) -> Iterator[str]:
    labels = set(case.verification.broken.labels)
    for clause in case.contract.clauses:
        for label in clause.checks:
            if label not in labels:
                yield f"contract.clauses: id={clause.id!r} names check={label!r}, which no stage has"


def _digests(case: Case) -> Iterator[str]:
    document = case.document()
    for path, salt in (case.member_only.salts or {}).items():
        if open_commitment(path, salt, value_at(document, path)) != case.member_only.commitments[path]:
            yield f"member_only.commitments: that of {path!r} is not the one of this value and salt"
    actual = record_digest(document)
    if case.sha256 != actual:
        yield f"sha256={case.sha256!r} is not the digest of the record, which is {actual!r}"
