"""Each mechanism's code: stages that do what the entry claims, and checks that show it, clause by clause."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from failuremap.catalogue import STAGES, VARIANTS, Mechanism, mechanisms
from failuremap.catalogue.claims import claim_problem

ENTRIES = [entry for entry in mechanisms().values() if entry.stages]
every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.slug)


def observe(entry: Mechanism, stage: str, variant: int) -> dict[str, bool]:
    """Run a stage's checks here: label -> passed."""
    assert entry.stages
    seen: dict[str, bool] = {}

    def check(label: str, actual: Any, expected: Any) -> None:
        assert label not in seen, f"{label} is there twice"
        json.dumps([actual, expected], allow_nan=False)
        seen[label] = actual == expected

    entry.stages.checks(variant, entry.stages.function(stage), check)
    return seen


@every_entry
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_broken_stages_fail_a_check_and_the_fixed_one_passes_all(entry: Mechanism, variant: int) -> None:
    failed = {
        stage: [label for label, passed in observe(entry, stage, variant).items() if not passed] for stage in STAGES
    }

    assert failed["broken"]
    assert failed["attempt"]
    assert failed["fixed"] == []


@every_entry
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_does_what_the_entry_claims(entry: Mechanism, stage: Any) -> None:
    assert claim_problem(entry, stage) == ""


@every_entry
def test_the_clauses_and_the_checks_are_each_others(entry: Mechanism) -> None:
    labels = set(observe(entry, "fixed", 1))
    named = [label for clause in entry.clauses for label in clause.checks]

    assert set(named) == labels
    assert all(clause.checks for clause in entry.clauses)
    assert len({clause.id for clause in entry.clauses}) == len(entry.clauses)


@every_entry
def test_the_input_varies_with_the_variant(entry: Mechanism) -> None:
    assert entry.stages
    given: list[list[str]] = []
    for variant in VARIANTS:
        given.append([])
        entry.stages.checks(variant, lambda it: given[-1].append(repr(it)) or entry.stages.fixed(it), lambda *_: None)

    assert len({tuple(one) for one in given}) == len(VARIANTS)


@every_entry
def test_the_stages_take_the_same_argument(entry: Mechanism) -> None:
    assert entry.stages
    signatures = {str(inspect.signature(entry.stages.function(stage))) for stage in STAGES}

    assert len(signatures) == 1
