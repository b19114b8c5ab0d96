"""What a rank did beside its backward passes before a step: the collectives that its script called, its step sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from failuremap.audit.trace import of_runs


@dataclass(frozen=True, slots=True)
class Call:
    """Calls of one collective that are alike, in one window of one rank."""

    function: str
    op: str
    ranks: tuple[int, ...]
    """Those that it was called on."""
    when: str
    """before the window's last backward, in a backward, or after the last one."""
    by: str
    """The autograd function that calls it; '' where none does."""
    own: bool
    """Whether the script calls it, and not the framework."""
    site: str
    calls: int
    elements: int
    parameters: frozenset[str]
    """Those whose gradient it writes to, after the last backward."""
    other_elements: int
    """Elements that it writes to something else, after the last backward."""
    waiting: int
    """Asynchronous calls that nothing had waited for when the step began."""
    carries_gradient: bool
    rows: int
    """Rows that are gathered while autograd records, and come without a gradient."""
    errors: tuple[str, ...]
    sent: tuple[float, ...] = ()
    """Numbers by which what is sent is known again on another rank."""
    passes: int = 0
    """Backward passes that had ended before it was sent."""
    cut_off: bool = False
    """Whether the rows are of a tensor with a gradient, which is gathered under no_grad."""
    gradients: frozenset[float] = frozenset()
    """Of what is sent, those that are the gradient of something that was received."""

    @property
    def crosses(self) -> bool:
        """Whether another rank is on the other end."""
        return len(self.ranks) > 1


@dataclass
class Beside:
    """What stands beside the gradients of one step of one rank."""

    calls: list[Call] = field(default_factory=list)
    rates: dict[str, float | None] = field(default_factory=dict)
    """Learning rates by parameter; None where one is not a plain number."""
    unmatched: int = 0
    """Tensors that were stepped on and may be copies of parameters, nobody knows of which."""
    unlike: frozenset[str] = frozenset()
    """Parameters of which copies were stepped on that did not equal them."""
    by_order: frozenset[str] = frozenset()
    """Parameters of which copies were stepped on that are theirs by the order of the others alone."""

    def add(self, other: Beside) -> None:
        """Takes in what stands beside an optimizer that makes one step together with this one."""
        self.calls += other.calls
        self.rates |= other.rates
        self.unmatched += other.unmatched
        self.unlike |= other.unlike
        self.by_order |= other.by_order


class BesideReader:
    """Follows a trace and keeps what belongs to its next step."""

    def __init__(self, name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        self._groups: dict[int, tuple[int, ...]] = {}
        self._calls: list[Call] = []

    def group(self, fields: dict[str, Any], _: object) -> None:
        """Reads which ranks a number stands for."""
        self._groups[fields["id"]] = of_runs(fields["ranks"])

    def collectives(self, fields: dict[str, Any], _: object) -> None:
        """Reads the collectives that were called before the next step."""
        self._calls += [self._call(call) for call in fields["calls"]]

    def taken(self, step: dict[str, Any]) -> Beside:
        """All that belongs to a step, given its record's fields."""
        calls, self._calls = self._calls, []
        names = map(self._name_of, step["parameters"])
        rates = dict(zip(names, _each(step.get("rates", ())), strict=False))
        unlike, by_order = map(str, step.get("unlike", ())), map(self._name_of, step.get("by_order", ()))
        return Beside(calls, rates, int(step.get("unmatched", 0)), frozenset(unlike), frozenset(by_order))

    def _call(self, fields: dict[str, Any]) -> Call:
        return Call(
            function=str(fields["function"]), op=str(fields.get("op", "")), ranks=self._groups[fields["group"]],
            when=str(fields["when"]), by=str(fields.get("by", "")), own=bool(fields["own"]), site=str(fields["site"]),
            calls=int(fields["calls"]), elements=int(fields["elements"]),
            parameters=frozenset(map(self._name_of, fields.get("parameters", ()))),
            other_elements=int(fields.get("other_elements", 0)), waiting=int(fields.get("waiting", 0)),
            carries_gradient=bool(fields.get("carries_gradient", False)), rows=int(fields.get("rows", 0)),
            errors=tuple(map(str, fields.get("errors", ()))),
            sent=tuple(map(float, fields.get("sent", ()))), passes=int(fields.get("passes", 0)),
            cut_off=bool(fields.get("cut_off", False)),
            gradients=frozenset(map(float, fields.get("gradients", ()))),
        )  # fmt: skip


def norms_of(step: dict[str, Any]) -> list[tuple[tuple[int, ...], float]] | None:
    """The lengths of what a rank has of an update, by the ranks that hold it together; None where not known."""
    if "norms" in step:
        return [(of_runs(norm["parts"]), float(norm["norm"])) for norm in step["norms"]]
    return None if step.get("norm") is None else [((), float(step["norm"]))]


def _each(runs: Iterable[tuple[float | None, int]]) -> list[float | None]:
    return [None if rate is None else float(rate) for rate, count in runs for _ in range(count)]
