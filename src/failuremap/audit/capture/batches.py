"""Batches as plain data: what a model was called with, copied, so that another process can use it again."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.held.layout import is_distributed, is_whole, local

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


@dataclass
class Call:
    """One call of a model from outside: its arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    model: str = ""
    """The class of what was called."""


@dataclass
class Batch:
    """What one backward pass was made of: a micro-batch of one rank, on the CPU.

    Example:
        >>> batch = Batch([Call((3,), {"mask": None})], ["targets"])
        >>> batch.args, batch.kwargs, batch.targets
        ((3,), {'mask': None}, ['targets'])
    """

    calls: list[Call]
    """The calls of a model from outside, in order; what a model had computed before stands as None."""
    targets: list[Any] = field(default_factory=list)
    """The `target` of each loss function of torch.nn.functional, in the order of the calls."""
    told: tuple[Any, ...] = ()
    """What `failuremap.batch(...)` was given."""
    left_out: list[str] = field(default_factory=list)
    """Types of arguments that are no tensors, numbers or strings, and stand as None."""

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the call, where there was one."""
        return self._only.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments of the call, where there was one."""
        return self._only.kwargs

    @property
    def _only(self) -> Call:
        if len(self.calls) != 1:
            told = ", ".join(call.model for call in self.calls) or "none"
            raise LookupError(
                f"batch.args and batch.kwargs are of one call, and this pass is made of {len(self.calls)} ({told}): "
                "use batch.calls, or say in the script what it is made of, failuremap.batch(...), and use batch.told"
            )
        return self.calls[0]

    @property
    def content(self) -> tuple[Any, ...]:
        """All of it, as nested tuples."""
        return tuple((call.args, call.kwargs) for call in self.calls), tuple(self.targets), self.told

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.calls or self.told)


class Copier:
    """Makes plain copies, counts their bytes, and notes what it leaves out.

    Args:
        limit: Bytes beyond which a tensor is counted, and not copied.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self.byte_count = limit, 0
        self.left_out: list[str] = []

    def copy(self, value: Any) -> Any:
        """A value as nested dicts, lists and tuples of tensors on the CPU and of plain values."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Mapping):
            return {str(key): self.copy(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            items = [self.copy(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {entry.name: self.copy(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
        self.left_out.append(type(value).__name__)
        return None

    def _tensor(self, tensor: Tensor) -> Tensor | None:
        if tensor.grad_fn is not None or tensor.requires_grad:
            return None
        if is_distributed(tensor) and not is_whole(tensor):
            self.left_out.append("DTensor")
            return None
        found = local(tensor).detach()
        self.byte_count += found.numel() * found.element_size()
        if self.byte_count > self._limit:
            return None
        return found.cpu().clone() if found.device.type == "cpu" else found.cpu()


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested plain data."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def fingerprint(value: Any) -> str:
    """The same for equal data, and for no other.

    Example:
        >>> fingerprint((1, [torch.ones(2)])) == fingerprint((1, [torch.ones(2)])) != fingerprint((1, [torch.zeros(2)]))
        True
    """
    digest = hashlib.sha256(repr(_shape_of(value)).encode())
    for tensor in tensors(value):
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _shape_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return ("tensor", tuple(value.shape), str(value.dtype))
    if isinstance(value, dict):
        return [(key, _shape_of(item)) for key, item in value.items()]
    return [_shape_of(item) for item in value] if isinstance(value, list | tuple) else value


def twice(value: Any, size: int, *, flat: bool = False) -> Any:
    """Nested data with every tensor of `size` rows put twice, one copy behind the other.

    Args:
        value: The data.
        size: Rows of the batch.
        flat: Whether tensors of several times as many rows are, too: rows of rows, laid out flat.

    Example:
        >>> twice({"x": torch.tensor([1, 2])}, 2)
        {'x': tensor([1, 2, 1, 2])}
    """
    if isinstance(value, Tensor):
        rows = value.shape[0] if value.dim() else 0
        return torch.cat([value, value]) if size and rows and (rows % size == 0 if flat else rows == size) else value
    if isinstance(value, dict):
        return {key: twice(item, size, flat=flat) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [twice(item, size, flat=flat) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value
