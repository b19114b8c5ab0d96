"""Numbers by which a tensor that one rank sends is known again on the rank that goes backward from it.

A pipeline written by hand sends the gradient of its input to the stage before, where backward starts from it. One
number of each such tensor tells which pass brought on which; the tensors themselves are not kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# elements that count
_MOST = 65536


def print_of(tensor: Tensor) -> Tensor:
    """One number that two different tensors are very unlikely to share."""
    flat = tensor.detach().reshape(-1)[:_MOST].double()
    return (flat * torch.linspace(1, 2, flat.numel(), dtype=torch.float64, device=flat.device)).sum()


def prints_of(tensors: Any) -> list[Tensor]:
    """The numbers of those that may be activations, or gradients of these: plain tensors of more than one number."""
    listed = [tensors] if isinstance(tensors, Tensor) else tensors or ()
    return [print_of(tensor) for tensor in listed if _may_be_activation(tensor)]


def handed(kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The numbers of the gradients that a backward starts from, where it is given any."""
    place, name = (1, "grad_tensors") if kind == "backward" else (2, "grad_outputs")
    return prints_of(args[place] if len(args) > place else kwargs.get(name))


def _may_be_activation(tensor: Any) -> bool:
    plain = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout == torch.strided and not tensor.is_meta
    return bool(plain and tensor.is_floating_point() and tensor.numel() > 1)
