"""One small exchange before any data moves: all ranks go on, or all raise the same error.

Where the ranks differ, data would be mixed up, or some ranks would wait for others for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpi4py import MPI

from failuremap.errors import InvalidArgument


@dataclass(frozen=True)
class Leaf:
    """What one array of a gradient is, without its numbers."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Said:
    """What one rank says about its call.

    Attributes:
        call: The function that it called.
        rule: The rule that it asks for.
        exact: Whether it asks for the exact sum.
        count: Units behind its gradient; 1 for a rule without counts.
        leaves: Place -> array, of a gradient that counts.
        tree: The gradient with empty arrays in the place of its own.
        problem: Why it can't go on; "" where it can.
    """

    call: str
    rule: Any = None
    exact: Any = None
    count: int = 0
    leaves: dict[str, Leaf] = field(default_factory=dict)
    tree: Any = None
    problem: str = ""


def agree(comm: Any, said: Said) -> list[Said]:
    """Returns what each rank says, once all of them fit together; collective.

    Raises:
        InvalidArgument: A rank can't go on, or ranks differ; the same message on all ranks.
    """
    everyone: list[Said] = comm.allgather(said)
    problems = _grouped(everyone, lambda each: each.problem)
    problems.pop("", None)
    if problems:
        raise InvalidArgument(" ".join(f"{listed(ranks)}: {text}" for text, ranks in problems.items()))
    _same(everyone, "the call is ", lambda each: each.call)
    _same(everyone, "rule=", lambda each: repr(each.rule))
    _same(everyone, "exact=", lambda each: repr(each.exact))
    places = dict.fromkeys(place for each in everyone for place in each.leaves)
    for place in places:
        _same(everyone, f"gradient{place} is ", lambda each, place=place: _described(each, place))  # type: ignore[misc]
    return everyone


def check_comm(comm: Any) -> None:
    """Refuses what no exchange can be made over.

    Raises:
        InvalidArgument: It is no communicator of one group of ranks.
    """
    if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
        raise InvalidArgument(
            f"comm is a {type(comm).__name__}{' of no group' if isinstance(comm, MPI.Intracomm) else ''}; expected a "
            "communicator of one group of ranks, such as MPI.COMM_WORLD."
        )


def _described(said: Said, place: str) -> str:
    if not said.count:
        return ""
    leaf = said.leaves.get(place)
    return f"{leaf.dtype} of shape {leaf.shape}" if leaf else "absent"


def _same(everyone: Sequence[Said], name: str, value_of: Callable[[Said], str]) -> None:
    groups = _grouped(everyone, value_of)
    groups.pop("", None)
    if len(groups) > 1:
        values = ", but ".join(f"{value} on {listed(ranks)}" for value, ranks in groups.items())
        raise InvalidArgument(f"{name}{values}; all ranks make the same call, on gradients of one kind.")


def _grouped(everyone: Sequence[Said], value_of: Callable[[Said], str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for rank, said in enumerate(everyone):
        groups.setdefault(value_of(said), []).append(rank)
    return groups


def listed(ranks: Sequence[int]) -> str:
    """Says which ranks: `rank 1`, or `ranks 0, 2`."""
    shown = ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
