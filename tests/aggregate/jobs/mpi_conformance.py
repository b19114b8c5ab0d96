"""Holds allreduce to the laws of aggregation, on the ranks of this job; rank 0 prints which it was held to.

mpi_conformance.py [wrong]     with `wrong`, counts are left out, and what check_backend says is printed
"""

from __future__ import annotations

import functools
import json
import sys

from mpi4py import MPI

from failuremap.aggregate.conformance import check_backend
from failuremap.aggregate.mpi import allreduce
from failuremap.errors import LawBroken

COMM = MPI.COMM_WORLD


def over_ranks(contributions, counts, rule, *, exact=False, counted=True):
    """Combine contributions that lie on one rank each."""
    own = None if counts is None else counts[COMM.rank] if counted else 1
    return allreduce(COMM, contributions[COMM.rank], own, rule, exact=exact)


def said(**options) -> object:
    """Return law -> number of cases, or what is broken."""
    combine = functools.partial(over_ranks, exact=options.get("exact", False), counted="wrong" not in sys.argv)
    dtypes = ["float16", "float32", "float64"]
    try:
        return check_backend(combine, dtypes=dtypes, contribution_counts=[COMM.size], **options).case_counts
    except LawBroken as broken:
        return str(broken)


if __name__ == "__main__":
    results = [said(exact=exact) for exact in (False, True)]
    assert COMM.allgather(results) == [results] * COMM.size
    if COMM.rank == 0:
        print(json.dumps(results))
