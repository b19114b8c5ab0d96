"""Each form of a record -> what it states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from failuremap.catalogue.exchange.failure_map import FailureMapRecord, MemberOnly
from failuremap.catalogue.exchange.page import PageRecord, PageStage
from failuremap.catalogue.exchange.statement import StageStatement, Statement
from failuremap.catalogue.mechanism import STAGES
from failuremap.catalogue.records.digest import value_at
from failuremap.catalogue.records.model import Case

_DIGEST = "it can't be recomputed from the public fields: the form doesn't say what it covers"
_ELSEWHERE = "the time and the machine of another run"
_WITHHELD = "the fixed stage is withheld"


def statement_of_record(record: FailureMapRecord) -> Statement:
    """Says what a record in the form "failure-map" states."""
    document = record.model_dump(mode="json")
    held = record.member_only
    uncheckable = {
        "verification.*.elapsed_ms": _ELSEWHERE,
        "provenance.generated_at": _ELSEWHERE,
        "provenance.python": _ELSEWHERE,
        "provenance.created_by": "nothing in the record shows it",
        "provenance.seed": "the scripts draw nothing at random",
        "sha256": _DIGEST,
    }
    others: dict[str, tuple[Any, Any]] = {"provenance.family": (record.provenance.family, record.family)}
    if held:
        parts = _parts_of(held.stages)
        others["member_only.fields"] = [path for path in parts if path in held.fields], parts
        uncheckable = {"verified": _WITHHELD, "verification.fixed": _WITHHELD} | uncheckable
    else:
        others["verified"] = (record.verified, True)
    return Statement(
        record=record.id,
        title=record.title,
        variant=record.variant,
        checks=record.checks,
        stages=_stages(record.implementations, record.verification),
        withheld=held.stages if held else (),
        is_public=record.visibility == "public",
        split=record.provenance.split,
        family=record.family,
        group=record.evaluation_group,
        signature=record.contract_signature,
        leaked=tuple(path for path in _withheld_paths(held) if value_at(document, path) is not None),
        others=others,
        uncheckable=uncheckable,
    )


def statement_of_case(case: Case) -> Statement:
    """Says what a record of this catalogue's own schema states; its digests were checked as it was read."""
    held = () if case.is_member_form else case.member_only.stages
    return Statement(
        record=case.id,
        title=case.title,
        variant=case.variant,
        checks=case.checks,
        stages=_stages(case.implementations, case.verification),
        withheld=held,
        is_public=None,
        split=case.split,
        family=case.family,
        group=case.evaluation_group,
        signature=case.contract.signature,
        others={"split": (case.split, "held-back" if case.visibility == "sealed" else "open-access")},
        uncheckable={"verification.fixed": _WITHHELD} if held else {},
    )


def statement_of_page(page: PageRecord) -> Statement:
    """Says what the text of a page states."""
    stages = tuple(_page_stage(stage, getattr(page, stage)) for stage in ("broken", "attempt"))
    return Statement(
        record=page.id,
        title=page.title,
        variant=page.variant,
        checks=page.checks,
        stages=stages,
        withheld=("fixed",),
        is_public=True,
        split=page.tier.lower().replace(" ", "-"),
        others={"checks of the withheld stage": (page.member_checks, page.checks)},
        uncheckable={
            "Verified by execution": _WITHHELD,
            "Observations recorded using": _ELSEWHERE,
            "Case digest": _DIGEST,
        },
    )


def _withheld_paths(held: MemberOnly | None) -> list[str]:
    if held is None:
        return []
    return list(held.fields) + [path for path in _parts_of(held.stages) if path not in held.fields]


def _parts_of(stages: Iterable[str]) -> list[str]:
    return [f"{part}.{stage}" for stage in stages for part in ("implementations", "verification")]


def _page_stage(name: str, stage: PageStage) -> StageStatement:
    return StageStatement(name, stage.source + "\n", stage.sha256, stage.exit_code, stage.observations)


def _stages(implementations: Any, verification: Any) -> tuple[StageStatement, ...]:
    """Pairs the scripts with their runs; one without the other is a stage that is not there."""
    both = ((name, getattr(implementations, name), getattr(verification, name)) for name in STAGES)
    return tuple(
        StageStatement(
            name, script.source, script.sha256, run.exit_code, run.observations, run.passed, run.stdout, run.stderr
        )
        for name, script, run in both
        if script and run
    )
