"""What a caller of `attach` has said, checked."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from failuremap.aggregate.checks import checked_rule, fault_of
from failuremap.errors import InvalidArgument

_LOSSES = ("mean", "sum")
_NONFINITE = ("propagate", "raise", "exclude")
_LARGEST = 2**53  # counts travel as float64


@dataclass(frozen=True)
class Settings:
    """The rule and its particulars; the same on all ranks.

    Attributes:
        rule: `weighted_mean`, `sum` or `mean`.
        loss: For `weighted_mean`: whether a micro-batch's loss is the `mean` over its units, or their `sum`.
        exact: Whether sums are those of exact arithmetic, rounded once.
        nonfinite: What infinity and NaN in a rank's gradient do: `propagate`, `raise` or `exclude`.
    """

    rule: str
    loss: str | None
    exact: bool
    nonfinite: str

    def check(self) -> None:
        """Refuses what is no setting.

        Raises:
            InvalidArgument: An unknown rule, loss kind or treatment of infinity and NaN; a loss kind without use.
        """
        checked_rule(self.rule)
        if self.rule == "weighted_mean" and not (isinstance(self.loss, str) and self.loss in _LOSSES):
            raise InvalidArgument(
                f"loss={self.loss!r}; say loss='mean' where the loss given to handle.backward is the mean over its "
                "units, loss='sum' where it is their sum."
            )
        if self.rule != "weighted_mean" and self.loss is not None:
            raise InvalidArgument(
                f"loss={self.loss!r} has no use: rule={self.rule!r} takes each micro-batch's gradient as it is; "
                "leave it out, or use rule='weighted_mean'."
            )
        if not isinstance(self.exact, bool):
            raise InvalidArgument(f"exact={self.exact!r}; expected True or False.")
        if not isinstance(self.nonfinite, str) or self.nonfinite not in _NONFINITE:
            raise InvalidArgument(f"nonfinite={self.nonfinite!r}; expected one of: {', '.join(_NONFINITE)}.")

    @property
    def counts_units(self) -> bool:
        """Whether each micro-batch comes with a count."""
        return self.rule == "weighted_mean"

    @property
    def weighs(self) -> bool:
        """Whether a gradient is multiplied by its count: it is a mean, and the wire carries sums."""
        return self.rule == "weighted_mean" and self.loss == "mean"

    def checked_count(self, count: Any, rank: int) -> int:
        """Returns the units of a micro-batch; 1 for a rule that counts micro-batches.

        Raises:
            InvalidArgument: The count is none, is missing, or has no use.
        """
        if not self.counts_units:
            if count is not None:
                raise InvalidArgument(
                    f"count={count!r} on rank {rank}, but rule={self.rule!r} doesn't use counts; leave it out, "
                    "or use rule='weighted_mean'."
                )
            return 1
        value = count
        if hasattr(count, "item"):
            with contextlib.suppress(RuntimeError, ValueError):  # more than one number is none
                value = count.item()
        fault = "missing" if value is None else fault_of(value) or ("above 2**53" if value > _LARGEST else "")
        if fault:
            raise InvalidArgument(
                f"count={value!r} on rank {rank} is {fault}; expected the number of units that the loss is the "
                f"{self.loss} of, so 0 or more."
            )
        return int(value)

    def divisor(self, total: int) -> int:
        """Returns what the sum over all ranks is divided by."""
        return 1 if self.rule == "sum" else total
