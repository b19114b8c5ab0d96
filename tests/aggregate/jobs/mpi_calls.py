"""One rank of an MPI job: makes calls read as JSON, and writes what each of them gave.

A call: for each rank its arguments; `gradient` is a list of numbers or a dict of them, `dtype` what they become, with
`plain` they stay as they are; `window` is a list of [gradient, count], `no window` something else in its place.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from failuremap import InvalidArgument
from failuremap.aggregate.accumulator import Accumulator
from failuremap.aggregate.mpi import allreduce, allreduce_window

COMM = MPI.COMM_WORLD


def arrays(value: Any, dtype: str) -> Any:
    """Return numbers, or a dict of them, as arrays."""
    if isinstance(value, dict):
        return {key: arrays(inner, dtype) for key, inner in value.items()}
    return np.array(value, dtype)


def called(arguments: dict[str, Any]) -> Any:
    """Make this rank's call."""
    dtype = arguments.pop("dtype", "float32")
    if "window" in arguments:
        window = Accumulator(arguments["rule"])
        for gradient, count in arguments["window"]:
            window.add(arrays(gradient, dtype), count)
        return allreduce_window(COMM, window)
    if "no window" in arguments:
        return allreduce_window(COMM, arguments["no window"])
    gradient = arguments.pop("gradient")
    if arguments.pop("plain", False):
        return allreduce(COMM, gradient, **arguments)
    before = arrays(gradient, dtype) if gradient is not None else None
    result = allreduce(COMM, before, **arguments)
    assert str(before) == str(arrays(gradient, dtype) if gradient is not None else None)
    return result


def written(result: Any) -> Any:
    """Return a result as JSON has it; arrays as dtype and numbers."""
    if isinstance(result, dict):
        return {key: written(inner) for key, inner in result.items()}
    return result if result is None else [result.dtype.name, result.astype(float).tolist()]


def outcome(arguments: dict[str, Any]) -> Any:
    """Return what a call gave, or the message of its error."""
    try:
        return written(called(arguments))
    except InvalidArgument as refused:
        return f"refused: {refused}"


if __name__ == "__main__":
    calls = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    outcomes = [outcome(call[COMM.rank]) for call in calls]
    Path(f"{sys.argv[1]}.{COMM.rank}").write_text(json.dumps(outcomes), encoding="utf-8")
