"""A case of this catalogue in the form "failure-map"."""

from __future__ import annotations

from typing import Any

from failuremap.catalogue.exchange.failure_map import FailureMapRecord, record_of
from failuremap.catalogue.exchange.tiers import Tier, canary_line
from failuremap.catalogue.records.model import Case

_SAME_NAMES = (
    "abstract", "category", "checks", "evaluation_group", "failed_approach", "family", "id", "limitations", "method",
    "relevance", "root_cause", "sha256", "title", "variant", "variant_policy",
)  # fmt: skip


def failure_map_record(case: Case, tier: Tier) -> FailureMapRecord:
    """Writes a case, given in the form of its tier, as a record of that form.

    Its `sha256` is the digest of the case, not of this text. Time, machine and duration are null: no record of this
    catalogue has them.
    """
    document = {name: getattr(case, name) for name in _SAME_NAMES}
    document |= {
        "contract": case.contract.text,
        "contract_signature": case.contract.signature,
        "implementations": {
            stage: script.model_dump(mode="json") for stage, script in case.implementations if script is not None
        },
        "provenance": _provenance(case, tier),
        "verified": True,
        "visibility": "member" if case.is_member_form else "public",
        "verification": {
            stage: {**run.model_dump(mode="json"), "elapsed_ms": None} for stage, run in case.runs().items()
        },
    }
    return record_of(document | _withheld(case), case.id)


def _withheld(case: Case) -> dict[str, Any]:
    if case.harness and case.repair:
        return {"harness": case.harness.source, "repair": case.repair}
    held = case.member_only
    return {"member_only": {"stages": list(held.stages), "fields": list(held.fields), "note": held.note}}


def _provenance(case: Case, tier: Tier) -> dict[str, Any]:
    return {
        "created_by": f"{case.provenance.created_by}. {canary_line(tier)}",
        "dependencies": case.provenance.dependencies,
        "family": case.family,
        "generated_at": None,
        "license": case.provenance.license,
        "python": None,
        "seed": case.variant,
        "split": case.split,
    }
