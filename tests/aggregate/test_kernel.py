"""The compiled kernel trusts no caller: a buffer of another kind is refused before it is read."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

from failuremap.aggregate import exact_blocks

FLOATS = np.ones(4, np.float32)
UNALIGNED = np.frombuffer(bytearray(17), np.float32, 4, offset=1)


@pytest.fixture
def kernel(require_module: Any) -> Any:
    """The compiled module."""
    require_module("failuremap.aggregate._exact", "with a C compiler: touch pyproject.toml, then make venv")
    return exact_blocks.kernel


def arguments(**changes: Any) -> list[Any]:
    """Return arguments that fit, some of them changed."""
    fitting = {
        "rows": (FLOATS,), "weights": (1,), "divisor": 1, "spare": 28,
        "out": np.empty(4, np.float32), "flags": np.zeros(1, np.uint8),
    }  # fmt: skip
    return list((fitting | changes).values())


def test_what_fits_is_added_up(kernel: Any) -> None:
    out = np.empty(4)

    assert kernel.weighted_sum(*arguments(rows=(FLOATS, FLOATS), weights=(1, 2), out=out)) == 0
    assert out.tolist() == [3.0] * 4


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"rows": (np.ones(4),)}, ValueError, "a buffer has format 'd'; expected 'f', aligned"),
        ({"rows": (np.ones(4, np.int32),)}, ValueError, "a buffer has format 'i'; expected 'f', aligned"),
        ({"rows": (np.ones(4, ">f4"),)}, ValueError, "a buffer has format '>f'; expected 'f', aligned"),
        ({"rows": (UNALIGNED,)}, ValueError, "a buffer has format '=f'; expected 'f', aligned"),
        ({"rows": (np.ones(8, np.float32)[::2],)}, ValueError, "not C-contiguous"),
        ({"rows": (np.ones(3, np.float32),)}, ValueError, "sizes do not agree"),
        ({"rows": (b"1234",)}, ValueError, "a buffer has format 'B'; expected 'f', aligned"),
        ({"rows": ([1.0],)}, TypeError, "a bytes-like object is required"),
        ({"rows": [FLOATS]}, TypeError, "must be tuple, not list"),
        ({"weights": (1, 2)}, ValueError, "sizes do not agree"),
        ({"weights": ("a",)}, TypeError, "must be real number, not str"),
        ({"divisor": 0}, ValueError, "sizes do not agree"),
        ({"divisor": float("nan")}, ValueError, "sizes do not agree"),
        ({"out": np.empty(4, np.int64)}, ValueError, "a buffer has format '[lq]'; expected 'fd', aligned"),
        ({"out": b"1234567812345678"}, BufferError, "not writable"),
        ({"spare": -1, "out": np.empty(4)}, ValueError, "a buffer has format 'f'; expected 'd', aligned"),
        ({"spare": -1, "rows": (np.ones(4),)}, ValueError, "a buffer has format 'f'; expected 'd', aligned"),
        ({"flags": np.zeros(2, np.uint8)}, ValueError, "sizes do not agree"),
        ({"flags": np.zeros(1, np.float32)}, ValueError, "a buffer has format 'f'; expected 'B', aligned"),
    ],
)
def test_what_does_not_fit_is_refused(kernel: Any, changes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kernel.weighted_sum(*arguments(**changes))


def test_a_refusal_lets_go_of_every_buffer(kernel: Any) -> None:
    rows = tuple(np.ones(4, np.float32) for _ in range(3))
    counts = [sys.getrefcount(row) for row in rows]
    for _ in range(5):
        with pytest.raises(ValueError, match="expected 'f'"):
            kernel.weighted_sum(*arguments(rows=(*rows, np.ones(4)), weights=(1, 1, 1, 1)))
    gc.collect()

    assert [sys.getrefcount(row) for row in rows] == counts
