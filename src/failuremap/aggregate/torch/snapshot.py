"""How gradients were left: tells, without a copy of them, whether somebody has changed them since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from failuremap.aggregate.torch.backend import local

_PROBED = 16  # numbers of each shard


class Snapshot(NamedTuple):
    """What a gradient was, by parameter, and what a few of its numbers were.

    Attributes:
        versions: Identity and autograd's version counters; None where there was no gradient.
        probe: Sums of a few numbers; for DTensors only, whose counters torch's `foreach` functions leave as they are.
    """

    versions: list[tuple[int, int, int] | None]
    probe: Tensor | None

    def same_as(self, other: Snapshot) -> bool:
        """Whether nothing has changed in between, as far as one can see."""
        if self.versions != other.versions or self.probe is None or other.probe is None:
            return self.versions == other.versions
        return bool(torch.equal(self.probe.view(torch.int64), other.probe.view(torch.int64)))


@torch.no_grad()
def snapshot(parameters: Iterable[Tensor]) -> Snapshot:
    """Looks at the gradients of some parameters."""
    versions: list[tuple[int, int, int] | None] = []
    probes = []
    for parameter in parameters:
        gradient = parameter.grad
        part = None if gradient is None else local(gradient)
        versions.append(None if gradient is None or part is None else (id(gradient), gradient._version, part._version))
        if part is not None and part is not gradient:
            probes.append(part.reshape(-1)[:_PROBED].sum(dtype=torch.float64))
    return Snapshot(versions, torch.stack(probes) if probes else None)
