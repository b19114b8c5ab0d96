"""Contributions that did not arrive, and those that hold infinity or NaN: refused, or left out with their counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from failuremap.aggregate.checks import checked_counts
from failuremap.aggregate.kinds import kind_of
from failuremap.errors import InvalidArgument

MISSING = ("raise", "renormalize")
NONFINITE = ("propagate", "raise", "exclude")


def check_policies(rule: str, missing: str, nonfinite: str) -> None:
    """Refuses an unknown policy, and one that leaves parts out of a sum."""
    for name, value, known, leaves_out in (
        ("missing", missing, MISSING, "renormalize"),
        ("nonfinite", nonfinite, NONFINITE, "exclude"),
    ):
        if not isinstance(value, str) or value not in known:
            raise InvalidArgument(f"{name}={value!r} is not known; expected one of: {', '.join(known)}.")
        if rule == "sum" and value == leaves_out:
            raise InvalidArgument(
                f"{name}={value!r} has no meaning for rule='sum': its parts are disjoint, so nothing stands for one "
                f"that is left out. Use {name}='raise', and drop the step."
            )


def weights_of(contributions: Sequence[Any], counts: Any, rule: str, missing: str) -> list[int]:
    """Returns each contribution's count, 0 for one that is None; ones for a rule without counts.

    The count of one that did not arrive may be None, too.
    """
    absent = [k for k, part in enumerate(contributions) if part is None]
    values = counts.tolist() if hasattr(counts, "tolist") else counts
    unknown = []
    if isinstance(values, list | tuple) and len(values) == len(contributions):
        unknown = [k for k in absent if values[k] is None]
        values = [0 if k in unknown else count for k, count in enumerate(values)]
    weights = checked_counts(values, len(contributions), rule)
    for k in absent:
        if missing == "raise" and (weights[k] or k in unknown):
            _refuse(k, rule)
        weights[k] = 0
    return weights


def finite_only(leaves: Mapping[int, Mapping[str, Any]], nonfinite: str) -> list[int]:
    """Returns the contributions that hold neither infinity nor NaN, in any leaf.

    Raises:
        InvalidArgument: One does, and the policy is `raise`.
    """
    kept = []
    for k, places in leaves.items():
        bad = next((place for place, leaf in places.items() if not kind_of(leaf, place).is_finite(leaf)), None)
        if bad is None:
            kept.append(k)
        elif nonfinite == "raise":
            raise InvalidArgument(
                f"contributions[{k}]{bad} holds infinity or NaN; expected finite numbers, by nonfinite='raise'. "
                "Drop the step, or leave such a contribution out of a mean with nonfinite='exclude'."
            )
    return kept


def _refuse(k: int, rule: str) -> None:
    advice = (
        "A sum has no value without all its parts: drop the step."
        if rule == "sum"
        else ("Drop the step, or take the mean over those that arrived with missing='renormalize'.")
    )
    raise InvalidArgument(f"contributions[{k}] is None: it did not arrive, and missing='raise'. {advice}")
