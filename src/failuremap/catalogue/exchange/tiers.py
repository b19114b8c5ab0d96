"""Who may read what: three tiers of one catalogue, each marked by a canary of its own.

    open     the open form of the cases that are not held back: all but the repair and its harness
    member   the same cases in their member form
    sealed   every case in its member form

Of a family that is held back, the open and the member tier have the contract alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from failuremap.catalogue.exchange.splits import split_of
from failuremap.catalogue.records.build import Edition, Placement
from failuremap.catalogue.records.digest import PUBLISHED_KEY, canonical
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.records.read import case_from_document

Tier = Literal["open", "member", "sealed"]
TIERS: tuple[Tier, ...] = ("open", "member", "sealed")

# A model that repeats one of these has read the files of that tier.
CANARIES: dict[Tier, str] = {
    "open": Edition.canary,
    "member": Edition.member_canary,
    "sealed": "9745ae42-7b7e-4a78-82a1-24d1e621c90d",
}


@dataclass(frozen=True)
class Holdings:
    """What one tier has.

    Attributes:
        tier: Which.
        cases: Those that are not held back, in the form of the tier.
        held_back: The others, in the sealed tier.
        contracts: What the other tiers have of them.
    """

    tier: Tier
    cases: tuple[Case, ...]
    held_back: tuple[Case, ...]
    contracts: tuple[dict[str, Any], ...]


def canary_line(tier: Tier) -> str:
    """Returns the sentence that marks every file of a tier."""
    return f"failuremap benchmark data, tier {tier}: keep out of training corpora. canary GUID {CANARIES[tier]}"


def edition_of(group: str, key: bytes = PUBLISHED_KEY) -> Edition:
    """Returns what a release decides for the cases of an evaluation group: their split, their canaries, their salts."""
    split = split_of(group)
    if split == "held-back":
        sealed = CANARIES["sealed"]
        return Edition(key, sealed, sealed, lambda _: Placement(split, "sealed"))
    return Edition(key, place=lambda _: Placement(split, "open"))


def holdings(cases: Iterable[Case], tier: Tier) -> Holdings:
    """Sorts member forms into what a tier may have of them."""
    cases = tuple(cases)
    held_back = tuple(case for case in cases if case.visibility == "sealed")
    others = (_in_tier(case, tier) for case in cases if case.visibility != "sealed")
    if tier == "sealed":
        return Holdings(tier, tuple(others), held_back, ())
    return Holdings(tier, tuple(others), (), _contracts(held_back, tier))


def _in_tier(case: Case, tier: Tier) -> Case:
    """Opens a case for strangers, or marks it for the tier: its digest covers neither."""
    if tier == "open":
        return case.to_open()
    document = case.document()
    return case_from_document({**document, "member_only": {**document["member_only"], "canary": CANARIES[tier]}})


def _contracts(held_back: Iterable[Case], tier: Tier) -> tuple[dict[str, Any], ...]:
    """Returns each contract once, named by its own digest: neither the case nor its family is told."""
    contracts = {contract_id(case): case for case in held_back}
    return tuple(
        {
            "contract_id": name,
            "category": case.category,
            "split": case.split,
            "contract": case.document()["contract"],
            "canary": CANARIES[tier],
        }
        for name, case in sorted(contracts.items())
    )


def contract_id(case: Case) -> str:
    """Returns the name under which a contract is held back: 16 digits of the SHA-256 of its canonical JSON."""
    return hashlib.sha256(canonical(case.document()["contract"])).hexdigest()[:16]
