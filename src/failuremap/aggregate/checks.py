"""What aggregation refuses: rules that it doesn't know, and counts that count nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Rational, Real
from typing import Any

from failuremap.errors import InvalidArgument

RULES = ("weighted_mean", "sum", "mean")


def checked_rule(rule: object) -> None:
    """Refuses a rule that aggregation doesn't know."""
    if not isinstance(rule, str) or rule not in RULES:
        raise InvalidArgument(f"rule={rule!r} is not known; expected one of: {', '.join(RULES)}.")


def tensor_advice(value: object) -> str:
    """Says what to give instead of a framework's tensor; "" for all else."""
    return " Of a tensor give tensor.numpy(), after .detach().cpu() where needed." if hasattr(value, "numpy") else ""


def checked_counts(counts: Any, contribution_count: int, rule: str) -> list[int]:
    """Returns the counts as ints; ones for a rule that has none."""
    if rule != "weighted_mean":
        if counts is not None:
            raise InvalidArgument(
                f"counts are given but rule={rule!r} doesn't use them; leave them out, or use rule='weighted_mean'."
            )
        return [1] * contribution_count
    if counts is None:
        raise InvalidArgument(
            "counts=None: rule='weighted_mean' needs the number of units behind each gradient; "
            "give counts, or another rule: sum or mean."
        )
    values = counts.tolist() if hasattr(counts, "tolist") else counts
    if not isinstance(values, list | tuple):
        raise InvalidArgument(f"counts={counts!r} is no list; give one count for each contribution.")
    if len(values) != contribution_count:
        raise InvalidArgument(
            f"len(counts)={len(values)} but there are {contribution_count} contributions; give one count for each."
        )
    # A tensor or array without an axis stands for its number.
    values = [value.item() if getattr(value, "ndim", 1) == 0 else value for value in values]
    return [_checked_count(values, index) for index in range(len(values))]


def _checked_count(counts: Sequence[Any], index: int) -> int:
    fault = fault_of(counts[index])
    if not fault:
        return int(counts[index])
    shown = f"counts={counts!r}: counts[{index}]" if len(counts) <= 8 else f"counts[{index}]={counts[index]!r}"
    raise InvalidArgument(
        f"{shown} is {fault}; a count is how many examples the gradient is a mean over, so 0 or more."
    )


def fault_of(count: Any) -> str:
    """Says why a value is no count; "" where it is one."""
    if isinstance(count, bool) or not isinstance(count, Real):
        return "no number"
    if not isinstance(count, Rational) and not math.isfinite(count):
        return "not finite"
    if count < 0:
        return "negative"
    return "" if count % 1 == 0 else "not whole"
