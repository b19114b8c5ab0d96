"""Who may read what: three tiers of one catalogue, each marked by a canary of its own.

    open     the open form of the cases whose group is not held back: all but the repair and its harness
    member   the same cases in their member form
    sealed   every case in its member form

Of a case that is held back, the open and the member tier have the contract alone.
"""

from __future__ import annotations

from typing import Literal

Tier = Literal["open", "member", "sealed"]
TIERS: tuple[Tier, ...] = ("open", "member", "sealed")

# A model that repeats one of these has read the files of that tier: outside this module they stand nowhere else.
CANARIES: dict[Tier, str] = {
    "open": "e666717c-08ad-429e-95ba-c3bc9837db50",
    "member": "8b413209-a9ed-448d-99e3-bc589e00cbb3",
    "sealed": "9745ae42-7b7e-4a78-82a1-24d1e621c90d",
}


def canary_line(tier: Tier) -> str:
    """Returns the sentence that marks every file of a tier."""
    return f"failuremap benchmark data, tier {tier}: keep out of training corpora. canary GUID {CANARIES[tier]}"
