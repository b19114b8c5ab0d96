"""Linear sketches of a tensor: a hundred numbers that stand for millions.

A sketch is linear, sketch(x + y) = sketch(x) + sketch(y), so whatever coefficients combine gradients also combine their
sketches, exactly up to rounding. It depends on the shape alone: all ranks make the same one without talking.

    small tensors (up to RAW_SIZE elements)  the elements themselves
    larger ones                              COORDINATES sampled elements, then SUMS random-sign sums over all elements

The sums see every element (an embedding row that one token touched, too); the sampled elements say where things differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from failuremap.audit.capture.sketches import compiled
from failuremap.audit.capture.sketches.pieces import SUMS, Piece, Waiting, plan, together

RAW_SIZE = 128
COORDINATES = 64
# up to this size all is copied at first; larger ones are worth an operation that makes them shorter
FLAT_SIZE = 4096
# rows are read this many elements at a time where they are widened, so that no copy of its size is ever held, and where
# they are read twice
_CHUNK = 1 << 18


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
        self._sampled_plan = plan(None, self.coordinate_count, torch.arange(self.coordinate_count, device="cpu"))
        self.flat = False
        self._compiled: compiled.Compiled | None = None
        self.made: Callable[[Tensor], Piece | None] = _not_made
        """What `read` keeps, where the compiled kernel can read a tensor."""
        if self.raw:
            self.index = torch.arange(self.size, device="cpu")
            self._compile(shape)
            return
        generator = _generator(shape)
        self.width = _width(shape, self.size)
        self._height = self.size // self.width
        self.index = torch.randint(0, self.size, (COORDINATES,), generator=generator, device="cpu").sort().values
        self.left = _signs(self._height + 1, generator)
        self.left_rows = self.left[:-1]
        self.right = _signs(self.width, generator)
        self.flat = self.size <= FLAT_SIZE and (self._height == 1 or self.width % SUMS == 0)
        """Whether element f of the flattened tensor is in sum f % SUMS: then its signs can wait, too."""
        length = -(-self.width // SUMS) * SUMS
        self._row_plan = plan(self.right, COORDINATES, length + torch.arange(COORDINATES, device="cpu"))
        if self.flat:
            self._flat_plan = plan(self.signs(0, self.size), 0, self.index)
        self._compile(shape)

    def _compile(self, shape: tuple[int, ...]) -> None:
        if compiled.kernel is not None:
            signs, to = None if self.raw else (self.left, self.right), torch.arange(self.coordinate_count, device="cpu")
            self._compiled = compiled.Compiled(shape, self.coordinate_count, self.index, to, signs)
            self.made = self._compiled.read

    def signs(self, start: int, stop: int) -> Tensor:
        """The signs of a range of the flattened tensor."""
        at = torch.arange(start, stop, device="cpu")
        return self.left[at // self.width] * self.right[at % self.width]

    def coordinates(self, tensor: Tensor) -> Tensor:
        """The sampled elements, float32; all elements of a small tensor. Always a copy."""
        if tensor.is_sparse:
            return self._sparse_coordinates(tensor.coalesce())
        if self.raw:
            return tensor.reshape(-1).to(torch.float32, copy=True)
        return torch.take(tensor, self.on(tensor, "index")).float()

    def is_live(self, tensor: Tensor) -> bool:
        """Whether any of the sampled elements is something else than zero."""
        made = None if self._compiled is None else self._compiled.sample(tensor)
        if made is not None:
            return bool(np.frombuffer(made.numbers, np.float32).any())
        return bool(self.coordinates(tensor.detach()).any())

    def sample(self, tensor: Tensor) -> Piece:
        """The sampled elements alone."""
        made = None if self._compiled is None else self._compiled.sample(tensor)
        return made or Waiting(self._sampled_plan, None, self.coordinates(tensor))

    def read(self, tensor: Tensor, *, keep: bool = True) -> Piece:
        """What the sketch is made of.

        Args:
            tensor: Of the sketch's shape.
            keep: The piece is needed when the tensor may have changed. Else it may be a view, and has the square.
        """
        made = self.made(tensor) if keep else self._measured(tensor)
        if made is not None:
            return made
        if tensor.is_sparse:
            return self._read_sparse(tensor.coalesce())
        if self.flat:
            return Waiting(self._flat_plan, tensor.clone() if keep else tensor, None)
        if self.raw:
            return Waiting(self._sampled_plan, None, tensor.clone() if keep else tensor)
        row, square = self._dense_row(tensor, measure=not keep)
        return Waiting(self._row_plan, row, torch.take(tensor, self.on(tensor, "index")), square)

    def _measured(self, tensor: Tensor) -> Piece | None:
        return None if self._compiled is None else self._compiled.measure(tensor)

    def _read_sparse(self, tensor: Tensor) -> Piece:
        if self.raw:
            return Waiting(self._sampled_plan, None, self._sparse_coordinates(tensor))
        return Waiting(self._row_plan, self._sparse_row(tensor), self._sparse_coordinates(tensor))

    def __call__(self, tensor: Tensor) -> Tensor:
        """The whole sketch, `row_count` float32 numbers."""
        return torch.from_numpy(together([self.read(tensor, keep=False)]))

    def _dense_row(self, tensor: Tensor, *, measure: bool) -> tuple[Tensor, Tensor | None]:
        if self._height * self.width == self.size:
            matrix = tensor if tensor.dim() == 2 and tensor.shape[1] == self.width else tensor.reshape(-1, self.width)
            return combined(matrix, self.on(tensor, "left_rows"), measure=measure)
        left, flat, whole = self.on(tensor, "left"), tensor.reshape(-1), self._height * self.width
        row, square = combined(flat[:whole].view(self._height, self.width), left[:-1], measure=measure)
        row[: self.size - whole] += flat[whole:].float() * left[-1]
        return row, None if square is None else square + square_of(flat[whole:])

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
            return torch.zeros(self.coordinate_count, device="cpu")
        rows, columns = self.index.cpu() // width, self.index.cpu() % width
        at = torch.searchsorted(present, rows).clamp(max=present.numel() - 1)
        values = tensor._values().cpu().reshape(present.numel(), -1)[at, columns].float()
        return torch.where(present[at] == rows, values, torch.zeros((), device="cpu"))

    def on(self, tensor: Tensor, name: str) -> Tensor:
        """The index or the signs, on the device of a tensor."""
        held: Tensor = getattr(self, name)
        if held.device != tensor.device:
            held = held.to(tensor.device)
            setattr(self, name, held)
        return held


def _not_made(tensor: Tensor) -> Piece | None:
    return None


def combined(matrix: Tensor, left: Tensor, *, measure: bool = False) -> tuple[Tensor, Tensor | None]:
    """left @ matrix in float32, without a copy of the matrix; and the sum of its squares, where it is measured."""
    plain = matrix.dtype == torch.float32
    if plain and not measure:
        return torch.matmul(left, matrix), None
    step = max(1, _CHUNK // max(1, matrix.shape[1]))
    if plain and len(matrix) <= step:
        return torch.matmul(left, matrix), square_of(matrix)
    row = torch.zeros(matrix.shape[1], dtype=torch.float32, device=matrix.device)
    squares = []
    for start in range(0, len(matrix), step):
        # both while it is in the cache
        chunk = matrix[start : start + step]
        row.addmv_((chunk if plain else chunk.float()).t(), left[start : start + step])
        squares += [square_of(chunk)] if measure else []
    return row, torch.stack(squares).sum() if squares else None


def square_of(tensor: Tensor) -> Tensor:
    """The sum of the squares of all elements."""
    flat = tensor.reshape(-1)
    if flat.dtype in (torch.float16, torch.bfloat16):  # their own arithmetic is too coarse, and overflows
        norm: Tensor = torch.linalg.vector_norm(flat, dtype=torch.float32)
        return norm.square()
    # dot reads a tensor in two thirds of the time that a norm takes
    return torch.dot(flat, flat)


def _width(shape: tuple[int, ...], size: int) -> int:
    """Columns of the matrix: the tensor's own where that keeps both sign vectors small, else 1,024."""
    natural = size // shape[0]
    if SUMS <= natural <= 65536:
        return natural
    return min(1024, size)


def _signs(count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 2, (count,), generator=generator, device="cpu").float() * 2 - 1


def _generator(shape: tuple[int, ...]) -> torch.Generator:
    seed = 12345
    for size in shape:
        seed = (seed * 1000003 + size) % 2147483629
    return torch.Generator().manual_seed(seed)
