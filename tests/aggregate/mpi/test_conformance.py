"""MPI keeps the laws of aggregation, on any number of ranks; exact results to the last bit."""

from __future__ import annotations

import json

import pytest

from aggregate.mpi.running import JOBS, mpirun

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.mark.parametrize("rank_count", [1, 2, 3, 4])
def test_all_laws_hold(rank_count: int) -> None:
    by_sum, exact = json.loads(mpirun(JOBS / "mpi_conformance.py", rank_count=rank_count))

    assert by_sum == exact
    assert {"definition", "nothing counted", "shape"} <= set(exact)
    assert rank_count == 1 or {"unequal counts", "zero count", "order"} <= set(exact)


def test_negative_control_without_counts_they_do_not() -> None:
    for said in json.loads(mpirun(JOBS / "mpi_conformance.py", "wrong", rank_count=2)):
        assert "unequal counts" in said
        assert "zero count" in said
