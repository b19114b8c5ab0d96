"""Linear sketches of a tensor: a hundred numbers that stand for millions.

A sketch is linear, sketch(x + y) = sketch(x) + sketch(y), so whatever coefficients combine gradients also combine their
sketches, exactly up to rounding. It depends on the shape alone: all ranks make the same one without talking.

    small tensors (up to RAW_SIZE elements)  the elements themselves
    larger ones                              COORDINATES sampled elements, then SUMS random-sign sums over all elements

The sums see every element (an embedding row that one token touched, too); the sampled elements say where things differ.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RAW_SIZE = 128
COORDINATES = 64
SUMS = 64
# rows of a tensor in a small type are widened this many elements at a time, so that no copy of its size is ever held
_CHUNK = 1 << 20


class Sketch:
    """The sketch of all tensors of one shape.

    The tensor is read as a matrix M of `height` x `width` elements (plus a tail); the sums are
    fold(right * (left @ M)) with random signs left and right: one pass over the tensor, no copy of it.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.size = math.prod(shape)
        self.raw = self.size <= RAW_SIZE
        self.coordinate_count = self.size if self.raw else COORDINATES
        self.row_count = self.size if self.raw else COORDINATES + SUMS
        if self.raw:
            self.index = torch.arange(self.size)
            return
        generator = _generator(shape)
        self.width = _width(shape, self.size)
        self._height = self.size // self.width
        self.index = torch.randint(0, self.size, (COORDINATES,), generator=generator).sort().values
        self.left = _signs(self._height + 1, generator)
        self.right = _signs(self.width, generator)
        self._padding = -self.width % SUMS

    def coordinates(self, tensor: Tensor) -> Tensor:
        """The sampled elements, float32; all elements of a small tensor. Always a copy."""
        if tensor.is_sparse:
            return self._sparse_coordinates(tensor.coalesce())
        flat = tensor.reshape(-1)
        if self.raw:
            return flat.to(torch.float32, copy=True)
        return flat.index_select(0, self.on(tensor, "index")).float()

    def __call__(self, tensor: Tensor) -> Tensor:
        """The whole sketch, `row_count` float32 numbers on the tensor's device."""
        if tensor.is_sparse:
            tensor = tensor.coalesce()
        if self.raw:
            return self.coordinates(tensor)
        row = self._sparse_row(tensor) if tensor.is_sparse else self._dense_row(tensor)
        return torch.cat([self.coordinates(tensor), self.fold(row)])

    def fold(self, row: Tensor) -> Tensor:
        """The sums, from the row that the left signs have made of the matrix."""
        row = row * self.on(row, "right")
        if self._padding:
            row = torch.nn.functional.pad(row, (0, self._padding))
        return row.view(-1, SUMS).sum(0)

    def _dense_row(self, tensor: Tensor) -> Tensor:
        left, flat = self.on(tensor, "left"), tensor.reshape(-1)
        whole = self._height * self.width
        matrix = flat[:whole].view(self._height, self.width)
        row = combined(matrix, left[:-1])
        if whole < self.size:
            row[: self.size - whole] += flat[whole:].float() * left[-1]
        return row

    def _sparse_row(self, tensor: Tensor) -> Tensor:
        left = self.on(tensor, "left")
        values = tensor._values().reshape(tensor._nnz(), self.size // tensor.shape[0]).float()
        columns = torch.arange(values.shape[1], device=tensor.device)
        at = tensor._indices()[0][:, None] * values.shape[1] + columns
        row = torch.zeros(self.width, device=tensor.device)
        return row.index_add_(0, (at % self.width).reshape(-1), (values * left[at // self.width]).reshape(-1))

    def _sparse_coordinates(self, tensor: Tensor) -> Tensor:
        present = tensor._indices()[0].cpu()
        width = self.size // tensor.shape[0]
        if present.numel() == 0:
            return torch.zeros(self.coordinate_count)
        rows, columns = self.index.cpu() // width, self.index.cpu() % width
        at = torch.searchsorted(present, rows).clamp(max=present.numel() - 1)
        values = tensor._values().cpu().reshape(present.numel(), -1)[at, columns].float()
        return torch.where(present[at] == rows, values, torch.zeros(()))

    def on(self, tensor: Tensor, name: str) -> Tensor:
        """The index or the signs, on the device of a tensor."""
        held: Tensor = getattr(self, name)
        if held.device != tensor.device:
            held = held.to(tensor.device)
            setattr(self, name, held)
        return held


def together(sketches: list[Tensor]) -> NDArray[np.float32]:
    """Sketches one after another, as a trace holds them; some may lie on another device, where shards are offloaded."""
    if len({sketch.device for sketch in sketches}) > 1:
        sketches = [sketch.cpu() for sketch in sketches]
    numbers: NDArray[np.float32] = torch.cat(sketches).cpu().numpy()
    return numbers


def combined(matrix: Tensor, left: Tensor) -> Tensor:
    """left @ matrix in float32, without a copy of the matrix."""
    if matrix.dtype == torch.float32:
        return torch.mv(matrix.t(), left)
    step = max(1, _CHUNK // max(1, matrix.shape[1]))
    row = torch.zeros(matrix.shape[1], device=matrix.device)
    for start in range(0, matrix.shape[0], step):
        row += torch.mv(matrix[start : start + step].float().t(), left[start : start + step])
    return row


def _width(shape: tuple[int, ...], size: int) -> int:
    """Columns of the matrix: the tensor's own where that keeps both sign vectors small, else 1,024."""
    natural = size // shape[0]
    if SUMS <= natural <= 65536:
        return natural
    return min(1024, size)


def _signs(count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 2, (count,), generator=generator).float() * 2 - 1


def _generator(shape: tuple[int, ...]) -> torch.Generator:
    seed = 12345
    for size in shape:
        seed = (seed * 1000003 + size) % 2147483629
    return torch.Generator().manual_seed(seed)
