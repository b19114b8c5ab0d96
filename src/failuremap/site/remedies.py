"""The call of our aggregators that follows the rule which a contract promises."""

from __future__ import annotations

from dataclasses import dataclass

from failuremap.catalogue.records.parts import RuleUse


@dataclass(frozen=True)
class Remedy:
    """What applies a rule.

    Attributes:
        in_memory: The call on gradients that are at hand.
        on_ranks: The lines of a training loop; "" where the handle has no such rule.
    """

    in_memory: str
    on_ranks: str


_ATTACHED = """\
handle = failuremap.attach(model, loss="mean")
...
handle.backward(loss, count=count)    # in the place of loss.backward()
handle.step()                         # before clipping and optimizer.step()"""
_REMEDIES = {
    "weighted_mean": Remedy(
        "failuremap.aggregate(gradients, counts=counts)",
        _ATTACHED,
    ),
    "mean": Remedy('failuremap.aggregate(gradients, rule="mean")', ""),
    "sum": Remedy('failuremap.aggregate(parts, rule="sum")', ""),
}


def remedy_for(promised: RuleUse | None) -> Remedy | None:
    """Returns what applies a promised rule; None where no aggregator of ours has that rule.

    Example:
        >>> remedy_for(None) is None
        True
    """
    return _REMEDIES.get(promised.name) if promised else None
