"""The sketch of a shard, in the coordinates of the whole tensor: those of disjoint shards add up to that of the whole.

    sums of the whole   fold(right * (left @ M)),  element f of the flattened whole at M[f // width, f % width]

A shard is the part of the whole at some indices along each dimension. Three ways lead to its left @ M, none of which
copies it: whole rows of M (a natural width), one range of the flattened whole, or element by element.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from failuremap.audit.capture.held.layout import Layout
from failuremap.audit.capture.sketches import compiled
from failuremap.audit.capture.sketches.pieces import SUMS, Piece, Waiting, plan, together
from failuremap.audit.capture.sketches.sketch import Sketch, combined, square_of

# elements whose places in the whole are worked out at a time
_CHUNK = 1 << 18


class ShardSketch:
    """The sketches of all tensors that lie in one layout."""

    def __init__(self, sketch: Sketch, layout: Layout) -> None:
        self._sketch, self._held = sketch, layout.held
        self._strides = _strides(layout.shape)
        self._columns: Tensor | None = None
        if layout.run is not None:
            self._start, stop = layout.run
            self.shape: tuple[int, ...] = (stop - self._start,)
            inside = (sketch.index >= self._start) & (sketch.index < stop)
            positions, self._at = inside.nonzero().flatten(), sketch.index[inside] - self._start
        else:
            self.shape = tuple(len(index) for index in layout.held)
            positions, self._at = self._sampled(layout.shape)
            self._start = self._find_run(layout)
        self.positions: list[int] = positions.tolist()
        """Which of the sketch's sampled elements lie in the shard."""
        self._positions = positions
        self._make_plans()
        self._compiled = None if compiled.kernel is None else self._compile()

    def _compile(self) -> compiled.Compiled | None:
        """The kernel's way to read the shard, where it is one run of the whole."""
        sketch, size = self._sketch, math.prod(self.shape)
        signs, first = None, 0
        if not sketch.raw:
            if self._start < 0 or not size:
                return None
            row, first = divmod(self._start, sketch.width)
            signs = sketch.left.cpu()[row:], sketch.right
        return compiled.Compiled(self.shape, sketch.coordinate_count, self._at, self._positions, signs, first)

    def _make_plans(self) -> None:
        sketch, count = self._sketch, len(self.positions)
        at = torch.full((sketch.coordinate_count,), -1, device="cpu")
        at[self._positions] = torch.arange(count, device="cpu")
        self._sampled_plan = plan(None, count, at)
        size = math.prod(self.shape)
        self._run = sketch.flat and self._start >= 0 and size > 0
        self._before = self._start % SUMS
        if self._run:
            at[self._positions] = self._before + self._at
            signs = sketch.signs(self._start - self._before, self._start + size)
            self._flat_plan = plan(signs, 0, at)
        elif not sketch.raw:
            at[self._positions] = -(-sketch.width // SUMS) * SUMS + torch.arange(count, device="cpu")
            self._row_plan = plan(sketch.right, count, at)

    def _find_run(self, layout: Layout) -> int:
        """Where the shard begins in the flattened whole; -1 where it is not one run of it."""
        if self._sketch.raw:
            return -1
        if self.shape[1:] != layout.shape[1:]:
            self._columns = self._flat(0, math.prod(self.shape[1:]), 1)
            return -1
        rows = layout.held[0]
        unbroken = len(rows) > 0 and bool((rows == torch.arange(len(rows), device="cpu") + rows[0]).all())
        return int(rows[0]) * self._strides[0] if unbroken else -1

    def _sampled(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Positions in the sketch of the sampled elements that lie here, and their places in the local tensor."""
        rest, here = self._sketch.index, torch.ones(len(self._sketch.index), dtype=torch.bool, device="cpu")
        place = torch.zeros(len(rest), dtype=torch.int64, device="cpu")
        for size, index, stride in zip(shape, self._held, self._strides, strict=True):
            where = torch.full((size,), -1, dtype=torch.int64, device="cpu")
            where[index] = torch.arange(len(index), device="cpu")
            mine = where[rest // stride]
            here &= mine >= 0
            place, rest = place * len(index) + mine, rest % stride
        return here.nonzero().flatten(), place[here]

    def sample(self, tensor: Tensor) -> Piece:
        """The sampled elements of the whole, zero where they lie on another rank."""
        made = None if self._compiled is None else self._compiled.sample(tensor)
        return made or Waiting(self._sampled_plan, None, self._taken(tensor))

    def _taken(self, tensor: Tensor) -> Tensor | None:
        return tensor.reshape(-1).index_select(0, self._at.to(tensor.device)) if self.positions else None

    def read(self, tensor: Tensor, *, keep: bool = True) -> Piece:
        """What this shard's part of the sketch is made of; `keep`: as for the whole.

        Raises:
            TypeError: It has not the shard's shape.
        """
        if self._compiled is not None:
            made = self._compiled.read(tensor) if keep else self._compiled.measure(tensor)
            if made is not None:
                return made
        if tuple(tensor.shape) != self.shape:
            raise TypeError(f"a shard has the shape {tuple(tensor.shape)}, expected {self.shape}")
        if self._sketch.raw:
            return self.sample(tensor)
        if self._run:
            flat = tensor.reshape(-1)
            flat = torch.nn.functional.pad(flat, (self._before, 0)) if self._before else flat
            return Waiting(self._flat_plan, flat.clone() if keep else flat, None)
        row, square = self._row(tensor, measure=not keep)
        return Waiting(self._row_plan, row, self._taken(tensor), square)

    def __call__(self, tensor: Tensor) -> Tensor:
        """This shard's part of the whole sketch, `row_count` float32 numbers."""
        return torch.from_numpy(together([self.read(tensor, keep=False)]))

    def _row(self, tensor: Tensor, *, measure: bool) -> tuple[Tensor, Tensor | None]:
        width, left = self._sketch.width, self._sketch.on(tensor, "left")
        size = tensor.numel()
        if size and self._start >= 0 and self._start % width == 0 and size % width == 0:
            first = self._start // width
            return combined(tensor.reshape(-1, width), left[first : first + size // width], measure=measure)
        row = torch.zeros(width, dtype=torch.float32, device=tensor.device)
        if size and self._start >= 0:
            self._add_range(row, tensor.reshape(-1), left)
        elif size and width == self._strides[0]:
            self._add_rows(row, tensor, left)
        elif size:
            self._add_elements(row, tensor.reshape(-1), left)
        return row, square_of(tensor) if measure else None

    def _add_rows(self, row: Tensor, tensor: Tensor, left: Tensor) -> None:
        part, _ = combined(tensor.reshape(tensor.shape[0], -1), left[self._held[0].to(left.device)])
        if self._columns is None:
            row += part
        else:
            row.index_add_(0, self._columns.to(row.device), part)

    def _add_range(self, row: Tensor, flat: Tensor, left: Tensor) -> None:
        """The shard is the elements `start` to `start + size` of the flattened whole."""
        width, start = self._sketch.width, self._start
        head = min(-start % width, len(flat))
        rows = (len(flat) - head) // width
        first, tail = (start + head) // width, head + rows * width
        if head:
            row[start % width : start % width + head] += flat[:head].float() * left[start // width]
        if rows:
            row += combined(flat[head:tail].view(rows, width), left[first : first + rows])[0]
        if tail < len(flat):
            row[: len(flat) - tail] += flat[tail:].float() * left[first + rows]

    def _add_elements(self, row: Tensor, flat: Tensor, left: Tensor) -> None:
        for start in range(0, len(flat), _CHUNK):
            values = flat[start : start + _CHUNK].float()
            at = self._flat(start, len(values), 0).to(flat.device)
            row.index_add_(0, at % self._sketch.width, values * left[at // self._sketch.width])

    def _flat(self, start: int, count: int, dim: int) -> Tensor:
        """Places in the whole, flattened from a dimension on, of `count` elements of the local tensor."""
        rest, at = torch.arange(start, start + count, device="cpu"), torch.zeros(count, dtype=torch.int64, device="cpu")
        inner = _strides(self.shape[dim:])
        for index, stride, step in zip(self._held[dim:], self._strides[dim:], inner, strict=True):
            at, rest = at + index[rest // step] * stride, rest % step
        return at


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [max(1, math.prod(shape[dim + 1 :])) for dim in range(len(shape))]
