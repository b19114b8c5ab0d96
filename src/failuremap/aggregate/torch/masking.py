"""A factor on a micro-batch's gradients where they arrive: the factor 0 takes them out, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def scaled_leaves(leaves: Iterable[Tensor], factor: float) -> Iterator[None]:
    """Multiplies every gradient that reaches these tensors; by 0 it becomes zeros, also where it is NaN."""
    hooks = [leaf.register_hook(lambda g: _scaled(g, factor)) for leaf in leaves if leaf.requires_grad]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _scaled(gradient: Tensor, factor: float) -> Tensor:
    return gradient * factor if factor else torch.zeros_like(gradient)
