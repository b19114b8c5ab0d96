"""Fits an update that lies in a file to contributions that lie in files: of a job that no audit could follow.

    full      random-sign sums over all elements, SUMS of each file: one pass at the speed of reading
    sampled   BLOCKS blocks of BLOCK elements, spread over each file at the same places

Both are linear, so what combines the gradients combines these numbers. A file is read a piece at a time and never held.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from failuremap.audit.fitting.fit import EPSILON, Products, tolerance
from failuremap.errors import InvalidArgument
from failuremap.rules import Layout, Match, match

SUMS = 4096
BLOCKS, BLOCK = 64, 1024
# rows of SUMS elements that are read and added up at a time: 1 MiB of float32, which stays in the cache
_ROWS = 64


@dataclass(frozen=True)
class FilesFit:
    """What an update is made of."""

    coefficients: tuple[float, ...]
    """One for each contribution, in the order given."""
    errors: tuple[float, ...]
    """Their standard errors; infinite where a contribution cannot be told apart from the others."""
    misfit: float
    """What the coefficients leave over, relative to the update."""
    tolerance: float
    """The misfit up to which rounding explains it."""
    rules: tuple[Match, ...]
    """The rules that the coefficients equal, where counts were given and the contributions explain the update."""

    @property
    def explained(self) -> bool:
        """Whether the update is a combination of the contributions, up to rounding."""
        return self.misfit <= self.tolerance


@dataclass(frozen=True)
class _File:
    path: Path
    dtype: np.dtype[np.generic]
    start: int
    size: int


def fit_files(
    update: Path, contributions: Sequence[Path], counts: Sequence[int] | None = None, *, sampled: bool = False
) -> FilesFit:
    """Solves update = sum over k of c_k g_k, and names the rule where the counts are known.

    Args:
        update: A .npy file of floating-point numbers: what the optimizer stepped on.
        contributions: One such file of the same size for each local gradient, a mean over its units.
        counts: The units behind each contribution, each on a rank of its own.
        sampled: Reads a few blocks of each file alone; what differs elsewhere goes unseen.

    Raises:
        InvalidArgument: A file is not such a file, or sizes or counts do not agree; the message says which.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> one, two = np.random.default_rng(0).normal(size=(2, 5000)).astype("f4")
        >>> for name, value in {"g0": one, "g1": two, "u": (one + two) / 2}.items():
        ...     np.save(folder / f"{name}.npy", value)
        >>> found = fit_files(folder / "u.npy", [folder / "g0.npy", folder / "g1.npy"], [3, 5])
        >>> [round(c, 4) for c in found.coefficients], found.rules[0].rule.name
        ([0.5, 0.5], 'mean')
    """
    files = [_opened(path) for path in (*contributions, update)]
    _check(files, counts)
    numbers_VL = np.array([_blocks(file) if sampled else _sums(file) for file in files])
    for file, numbers in zip(files, numbers_VL, strict=True):
        if not np.isfinite(numbers).all():
            raise InvalidArgument(f"{file.path} holds numbers that are not finite; expected a gradient without them.")
    count, length = len(contributions), numbers_VL.shape[1]
    dtype = max((str(file.dtype) for file in files), key=lambda name: EPSILON[name])
    products = Products(numbers_VL, np.array([0, length]), [count], [dtype], [files[0].size])
    regressors = list(range(count))
    solution = products.solve(regressors, count, np.ones(1, dtype=bool))
    misfit = float(products.misfit(regressors, count, solution.coefficients)[0])
    coefficients, errors = tuple(map(float, solution.coefficients)), tuple(map(float, solution.errors))
    limit = tolerance(dtype, count)
    known = counts is not None and misfit <= limit
    rules = match(coefficients, errors, Layout.from_counts(list(counts or ()))) if known else []
    return FilesFit(coefficients, errors, misfit, limit, tuple(rules))


def _opened(path: Path) -> _File:
    try:
        with open(path, "rb") as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, by_columns, dtype = read(file)
            start = file.tell()
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}; expected a .npy file.") from error
    except ValueError as error:
        raise InvalidArgument(f"{path} is no .npy file; write one with numpy.save.") from error
    size = int(np.prod(shape, dtype=np.int64))
    if dtype.name not in EPSILON or not dtype.isnative:
        raise InvalidArgument(f"{path} holds dtype={dtype.str}; expected float16, float32 or float64 of this machine.")
    if by_columns and len(shape) > 1:
        raise InvalidArgument(
            f"{path} is stored by columns; write it with numpy.save(..., numpy.ascontiguousarray(x))."
        )
    if path.stat().st_size < start + size * dtype.itemsize:
        raise InvalidArgument(f"{path} ends early: its header promises {size} numbers; write it again.")
    return _File(path, dtype, start, size)


def _check(files: Sequence[_File], counts: Sequence[int] | None) -> None:
    *contributions, update = files
    for file in contributions:
        if file.size != update.size:
            raise InvalidArgument(f"{file.path} holds {file.size} numbers and {update.path} {update.size}; one model?")
    if not contributions or not update.size:
        raise InvalidArgument(f"{update.path} has no contributions or no numbers; expected at least one of each.")
    if counts is not None and len(counts) != len(contributions):
        raise InvalidArgument(f"len(counts)={len(counts)} for {len(contributions)} contributions; give one for each.")


def _sums(file: _File) -> NDArray[np.float64]:
    """Element f of the file, with a random sign, is in sum f % SUMS."""
    generator = np.random.default_rng(0)
    sums = np.zeros(SUMS)
    # a mapped file is not copied, which is most of what reading it takes
    numbers = np.memmap(file.path, dtype=file.dtype, mode="r", offset=file.start, shape=(file.size,))
    for first in range(0, file.size, _ROWS * SUMS):
        signs = generator.integers(0, 2, _ROWS).astype(np.float32) * 2 - 1
        part = numbers[first : first + _ROWS * SUMS]
        if len(part) < _ROWS * SUMS:
            part = np.pad(part, (0, _ROWS * SUMS - len(part)))
        sums += signs @ part.reshape(_ROWS, SUMS)
    return sums * (generator.integers(0, 2, SUMS) * 2 - 1)


def _blocks(file: _File) -> NDArray[np.float64]:
    length = min(BLOCK, file.size)
    starts = np.sort(np.random.default_rng(0).integers(0, file.size - length + 1, BLOCKS))
    width = file.dtype.itemsize
    handle = os.open(file.path, os.O_RDONLY)
    try:
        read = [os.pread(handle, length * width, file.start + int(start) * width) for start in starts]
    finally:
        os.close(handle)
    return np.frombuffer(b"".join(read), dtype=file.dtype).astype(np.float64)
