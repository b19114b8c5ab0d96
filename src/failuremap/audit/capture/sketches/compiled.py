"""Reads a tensor's sketch by the compiled kernel, in one pass that leaves nothing to do later.

Where the kernel is absent (built without a C compiler), or a tensor is not for it, torch does the same: on another
device, of another type than float32, with gaps between its elements, or large where torch would use several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.dlpack import to_dlpack  # type: ignore[attr-defined]

from failuremap.audit.capture.sketches.pieces import Made

kernel: Any
try:
    kernel = import_module("failuremap.audit.capture.sketches._sketch")
except ImportError:
    kernel = None

# elements from which on several threads read faster than one
_LARGE = 1 << 20
_NONE = torch.zeros(0, device="cpu")


class Compiled:
    """The kernel's way to read tensors of one shape.

    Args:
        shape: Of the tensor, or of the part of it that is here.
        coordinate_count: How many sampled elements the sketch of the whole has.
        at: Where those that are here lie in the flattened tensor.
        to: Which of the sampled elements they are.
        signs: Those of the rows from the one on in which it starts, and those of all columns; None: there are no sums.
        first: The column in which it starts.
    """

    def __init__(
        self,
        shape: Sequence[int],
        coordinate_count: int,
        at: Tensor,
        to: Tensor,
        signs: tuple[Tensor, Tensor] | None = None,
        first: int = 0,
    ) -> None:
        left, right = signs or (_NONE, _NONE)
        places = (np.ascontiguousarray(one.numpy(), np.int64) for one in (at, to))
        rows, columns = (np.ascontiguousarray(one.numpy(), np.float32) for one in (left, right))
        self._plan = kernel.plan(np.array(shape, np.int64), first, rows, columns, *places, coordinate_count)
        self._large = int(np.prod(shape, dtype=np.int64)) >= _LARGE

    def read(self, tensor: Tensor) -> Made | None:
        """The sketch; None where the kernel refuses the tensor."""
        # not by _by: this is called for each gradient of each pass, and a call in between costs more than it reads
        if self._large and torch.get_num_threads() > 1:
            return None
        try:
            numbers = None if tensor.is_neg() else kernel.read(self._plan, to_dlpack(tensor))
        except Exception:
            return None
        return None if numbers is None else Made(numbers)

    def measure(self, tensor: Tensor) -> Made | None:
        """The sketch with the sum of squares; None where the kernel refuses the tensor."""
        measured = self._by(kernel.measure, tensor)
        return None if measured is None else Made(*measured)

    def sample(self, tensor: Tensor) -> Made | None:
        """The sampled elements alone, zero where they are elsewhere; None where the kernel refuses the tensor."""
        numbers = self._by(kernel.sample, tensor)
        return None if numbers is None else Made(numbers)

    def _by(self, function: Callable[[Any, Any], Any], tensor: Tensor) -> Any:
        if self._large and torch.get_num_threads() > 1:
            return None
        try:
            return None if tensor.is_neg() else function(self._plan, to_dlpack(tensor))
        except Exception:  # sparse, or without storage: torch knows what to do with it, or says what is wrong
            return None
