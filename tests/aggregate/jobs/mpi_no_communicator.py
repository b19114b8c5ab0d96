"""Calls with what is no communicator, and prints the messages."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from failuremap import InvalidArgument
from failuremap.aggregate.mpi import allreduce

for comm in (None, MPI.COMM_NULL):
    try:
        allreduce(comm, np.zeros(1), 1)
    except InvalidArgument as refused:
        print(refused)
