"""A mechanism, a variant and its recorded runs -> the case that is published: no clock, no machine, no chance."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from failuremap.catalogue.mechanism import STAGES, Mechanism, Stage, Stages
from failuremap.catalogue.recording import Recording, Recordings
from failuremap.catalogue.records.digest import (
    PUBLISHED_KEY,
    WITHHELD,
    Document,
    open_commitment,
    record_digest,
    salt_of,
    sha256_text,
    value_at,
)
from failuremap.catalogue.records.model import SCHEMA_VERSION, Case
from failuremap.catalogue.records.read import case_from_document
from failuremap.catalogue.render import render, source_of
from failuremap.catalogue.shelf import case_id
from failuremap.errors import RecordError
from failuremap.rules import known_rule

CATEGORY = "Distributed training aggregation"
METHOD = (
    "A deterministic executable model: each stage is one script, run in a fresh interpreter, whose checks compare what "
    "it returns for fixed inputs with what the contract wants."
)
VARIANT_POLICY = (
    "The inputs depend on N, 1 to 5; checks at the edges of the domain may repeat. The variants of a family share one "
    "contract and one repair: they count once, and stay in one split with their evaluation group."
)
MEMBER_NOTE = "The repair, its recorded checks, its description and the harness of the score are held for members."
_HARNESS_HEAD = "# Fraction is fractions.Fraction, Layout is failuremap.rules.Layout.\n"
GENERATOR = "failuremap.catalogue.records 1"


@dataclass(frozen=True)
class Placement:
    """Where an evaluation group stands: its split, and the lowest tier in which its cases appear."""

    split: str = "open-access"
    visibility: Literal["open", "member", "sealed"] = "open"


@dataclass(frozen=True)
class Edition:
    """What is decided for a whole release, and not by any of its cases.

    Attributes:
        key: Key of the salts; the published one binds the publisher, and hides nothing from who guesses.
        canary: The string by which a text that was taken from the open tier is found out.
        member_canary: The same of the member tier.
        place: Evaluation group -> its placement.
    """

    key: bytes = PUBLISHED_KEY
    canary: str = "4f0b6d52-8a0e-4c55-9d0f-2b7c1f5e9a31"
    member_canary: str = "b83c7e0a-1d64-4f1b-a6c2-7e90d4a5f218"
    place: Callable[[str], Placement] = lambda _group: Placement()


def build_case(entry: Mechanism, variant: int, recordings: Recordings, edition: Edition | None = None) -> Case:
    """Makes the member form of one case; `to_open` gives the other one.

    Args:
        entry: The mechanism, with its code.
        variant: N.
        recordings: The recorded runs of the mechanism.
        edition: What holds for the whole release; the published default where it is not given.

    Raises:
        InvalidArgument: The mechanism has no code or no number, or there is no such variant.
        RecordError: A recording is not that of the script as it is now, or the case contradicts itself.
    """
    edition = edition or Edition()
    name = case_id(entry, variant)
    scripts = {stage: render(entry, stage, variant) for stage in STAGES}
    recorded = {stage: _recording_of(name, stage, scripts[stage], recordings.get((stage, variant))) for stage in STAGES}
    assert entry.stages is not None
    document: Document = {
        **_head(entry, variant, name, edition),
        "contract": _contract(entry),
        "rules": _rules(entry),
        "checks": len(_report(name, "broken", recorded["broken"])["observations"]),
        "implementations": {stage: _implementation(script) for stage, script in scripts.items()},
        "verification": {stage: _run(name, stage, recorded[stage]) for stage in STAGES},
        "harness": _implementation(harness_source(entry.stages)),
        "repair": entry.repair,
        **_tail(entry, edition),
    }
    return case_from_document(sign(document, edition))


def sign(document: Document, edition: Edition) -> Document:
    """Returns a member form with its salts, commitments and digest written anew."""
    salts = {path: salt_of(document["id"], path, edition.key) for path in WITHHELD}
    commitments = {path: open_commitment(path, salt, value_at(document, path)) for path, salt in salts.items()}
    member_only = {
        "stages": ["fixed"],
        "fields": list(WITHHELD),
        "note": MEMBER_NOTE,
        "commitments": commitments,
        "salts": salts,
        "canary": edition.member_canary,
    }
    signed = {**document, "member_only": member_only}
    return {**signed, "sha256": record_digest(signed)}


def harness_source(stages: Stages) -> str:
    """Returns the source of what a candidate is held to: checks, random inputs, the rule's terms, the law."""
    parts = (stages.checks, stages.sample, stages.contributions, stages.law)
    return "\n\n".join([_HARNESS_HEAD, *(textwrap.dedent(source_of(part)) for part in parts if part)])


def _recording_of(name: str, stage: Stage, script: str, recording: Recording | None) -> Recording:
    """Returns the recording if it is one of this script."""
    sha256 = sha256_text(script)
    if recording is not None and recording.sha256 == sha256:
        return recording
    found = f"was recorded of another script, sha256={recording.sha256!r}" if recording else "was not recorded"
    raise RecordError(
        f"record={name!r}: verification.{stage} {found}; the script is {sha256!r}. "
        f"Record it:  failuremap verify {name} --record"
    )


def _head(entry: Mechanism, variant: int, name: str, edition: Edition) -> Document:
    placed = edition.place(entry.group)
    return {
        "schema_version": SCHEMA_VERSION,
        "id": name,
        "aliases": [entry.alias] if entry.alias and variant == 1 else [],
        "title": f"{entry.title} · case {variant:02d}",
        "abstract": entry.abstract,
        "category": CATEGORY,
        "family": entry.slug,
        "evaluation_group": entry.group,
        "variant": variant,
        "variant_policy": VARIANT_POLICY,
        "visibility": placed.visibility,
        "split": placed.split,
        "root_cause": entry.root_cause,
        "failure": entry.failure,
        "failed_approach": entry.failed_approach,
        "relevance": entry.relevance,
        "limitations": entry.limitations,
        "method": METHOD,
    }


def _tail(entry: Mechanism, edition: Edition) -> Document:
    return {
        "audit": {"sees": entry.audit_sees, "blind": entry.audit_blind, "separated_by": entry.separated_by},
        "related": list(entry.related),
        "references": [{"kind": _kind_of(url), "url": url} for url in entry.references],
        "provenance": {
            "created_by": "Failure Map",
            "license": "CC0-1.0",
            "dependencies": "Python standard library",
            "generator": GENERATOR,
        },
        "published": entry.published,
        "modified": entry.modified,
        "withdrawn": None,
        "canary": edition.canary,
    }


def _contract(entry: Mechanism) -> Document:
    assert entry.stages is not None
    return {
        "signature": ", ".join(inspect.signature(entry.stages.fixed).parameters),
        "text": entry.contract,
        "domain": entry.domain,
        "clauses": [
            {"id": clause.id, "kind": clause.kind, "text": clause.text, "checks": list(clause.checks)}
            for clause in entry.clauses
        ],
    }


def _rules(entry: Mechanism) -> Document:
    return {
        "promised": _rule(entry.promised),
        "law": entry.law or None,
        "broken": _rule(entry.rule_of("broken")),
        "attempt": _rule(entry.attempt_follows),
        "also_followed": [_rule(name) for name in entry.followed[1:]],
    }


def _rule(name: str) -> Document | None:
    if not name:
        return None
    rule = known_rule(name)
    return {"name": rule.name, "title": rule.words(), "formula": rule.formula}


def _implementation(source: str) -> Document:
    return {"sha256": sha256_text(source), "source": source}


def _run(name: str, stage: Stage, recording: Recording) -> Document:
    report = _report(name, stage, recording)
    return {
        "exit_code": recording.exit_code,
        "passed": report["passed"],
        "observations": report["observations"],
        "stdout": recording.stdout,
        "stderr": recording.stderr,
    }


def _report(name: str, stage: Stage, recording: Recording) -> Any:
    """Reads the JSON that a script printed."""
    try:
        report = json.loads(recording.stdout)
        return {"passed": report["passed"], "observations": report["observations"]}
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"record={name!r}: verification.{stage}.stdout is no report of a script: {error}.") from error


def _kind_of(url: str) -> str:
    kinds = {"issues": "issue", "pull": "pull-request", "discussions": "discussion", "commit": "commit"}
    return next((kind for part, kind in kinds.items() if f"/{part}/" in url), "page")
