"""`allreduce_window`: exact sums of micro-batches on each rank become one result for all."""

from __future__ import annotations

from typing import Any

from failuremap.aggregate.accumulator import Accumulator
from failuremap.aggregate.mpi.agreement import Said, agree, check_comm, listed
from failuremap.errors import InvalidArgument


def allreduce_window(comm: Any, window: Accumulator) -> Any:
    """Returns what one `Accumulator` would, had it got the gradients of all ranks; all ranks call it.

    The result is correctly rounded: the same bits whatever the ranks' number, and however the micro-batches are spread
    over them. The exact sums travel, which are two to four times as large as the gradient.

    Args:
        comm: Whose ranks take part, such as `MPI.COMM_WORLD`.
        window: This rank's micro-batches; it is left as it is. A rank without any gives an empty one.

    Returns:
        The sum or mean, the same on all ranks; None where no rank has a unit.

    Raises:
        InvalidArgument: A rank gives no accumulator, or ranks differ in rule, keys, shapes or dtypes: the same on all.
    """
    check_comm(comm)
    agree(comm, _said(window))
    total, _ = comm.reduce((window, [comm.rank]), op=_merged) or (None, [])
    answer = comm.bcast(total.result() if isinstance(total, Accumulator) else total)
    if isinstance(answer, InvalidArgument):
        raise answer
    return answer


def _said(window: Any) -> Said:
    if isinstance(window, Accumulator):
        return Said("allreduce_window", window.rule)
    problem = f"window is of type {type(window).__name__}; expected an Accumulator."
    return Said("allreduce_window", problem=problem)


_Part = tuple[Accumulator | InvalidArgument, list[int]]


def _merged(left: _Part, right: _Part) -> _Part:
    """Merges the windows of some ranks with those of others; an error goes on in their place, to reach all ranks."""
    (first, first_ranks), (second, second_ranks) = left, right
    ranks = first_ranks + second_ranks
    if isinstance(first, InvalidArgument):
        return first, ranks
    if isinstance(second, InvalidArgument):
        return second, ranks
    total = Accumulator(first.rule)
    total.merge(first)
    try:
        total.merge(second)
    except InvalidArgument as refused:
        there = f"the window of {listed(second_ranks)} doesn't fit that of {listed(first_ranks)}"
        return InvalidArgument(f"{there}: {refused}"), ranks
    return total, ranks
