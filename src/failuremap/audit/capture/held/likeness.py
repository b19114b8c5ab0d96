"""Whether a tensor, or a run of its elements, equals a parameter up to the rounding of the parameter's type.

Each is read once: two are compared by their sketches, whose sums of random signs see every element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from failuremap.audit.capture.watching import Watched

Placed = list[tuple[Watched, int]]
"""Parameters, each with the index of the flattened tensor at which it begins."""

# a sum over n elements, each rounded by a part of its size, is off by that part of their length: no 8 times as much
_SUMS = 8.0
# float32 sketches of equal tensors agree up to this part of the tensors' length
_SKETCHED = 1e-5
# elements of a run that are looked at before all are
_FIRST = 8


class Likeness:
    """Parameters that other tensors may equal.

    Args:
        parameters: In the order in which they may lie one after another.
    """

    def __init__(self, parameters: Iterable[Watched]) -> None:
        self._tensors = {watched: tensor for watched in parameters if (tensor := watched.tensor()) is not None}
        self._first = {watched: _first(tensor) for watched, tensor in self._tensors.items()}
        self._sketches: dict[Watched, Tensor] = {}

    @property
    def parameters(self) -> list[Watched]:
        """The parameters, in their order."""
        return list(self._tensors)

    def equal_to(self, tensor: Tensor) -> list[Watched]:
        """The parameters of as many elements that a tensor equals."""
        of_size = [watched for watched in self._tensors if watched.sketch.size == tensor.numel()]
        own = {watched.shape: _sketched(watched, tensor) for watched in of_size}
        return [watched for watched in of_size if self._equals(own[watched.shape], watched)]

    def laid_out(self, flat: Tensor) -> Placed:
        """The parameters that lie one after another in a tensor, behind them perhaps zeros; [] where others do, too."""
        flat = flat.detach().reshape(-1)
        return self._parsed(flat, list(self._tensors)) or self._parsed(flat, list(reversed(self._tensors)))

    def _parsed(self, flat: Tensor, candidates: Sequence[Watched]) -> Placed:
        found: Placed = []
        at = 0
        for watched in candidates:
            end = at + watched.sketch.size
            if end <= len(flat) and self._equals_run(flat[at:end], watched):
                found.append((watched, at))
                at = end
        return [] if flat[at:].any() else found

    def _equals_run(self, run: Tensor, watched: Watched) -> bool:
        if not bool(_within(_first(run), self._first[watched], self._tensors[watched].dtype).all()):
            return False
        return self._equals(_sketched(watched, run), watched)

    def _equals(self, sketched: Tensor, watched: Watched) -> bool:
        dtype = self._tensors[watched].dtype
        if watched not in self._sketches:
            self._sketches[watched] = _sketched(watched, self._tensors[watched])
        own, count = self._sketches[watched], watched.sketch.coordinate_count
        sums, others = own[count:], sketched[count:]
        limit = (_SUMS * torch.finfo(dtype).eps + _SKETCHED) * max(sums.norm(), others.norm())
        return bool(_within(sketched[:count], own[:count], dtype).all() and ((others - sums).abs() <= limit).all())


def still_equal(watched: Watched) -> Tensor | None:
    """Whether the sampled elements of a parameter's copy equal the parameter's; None where there is none of the two."""
    tensor, holder = watched.tensor(), watched.held()
    if tensor is None or holder is None or watched.place is None:
        return None
    copy = watched.place.part_of(holder).view(watched.shape)
    own, other = (watched.sketch.coordinates(one.detach()) for one in (tensor, copy))
    return _within(other.to(own.device), own, tensor.dtype).all()


def _first(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1)[:_FIRST].cpu().float()


def _sketched(watched: Watched, tensor: Tensor) -> Tensor:
    return watched.sketch(tensor.detach().reshape(watched.shape))


def _within(other: Tensor, own: Tensor, dtype: torch.dtype) -> Tensor:
    """Where two differ by no more than a rounding, up or down, of the coarser type."""
    kind = torch.finfo(dtype)
    return (other - own).abs() <= kind.eps * torch.maximum(own.abs(), other.abs()) + kind.tiny * kind.eps
