"""Where this rank's part of a distributed tensor lies in the whole, read from its mesh and placements alone.

Nothing here talks to another rank, and nothing runs an operation on a DTensor: that could start a collective.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """One rank's part of a tensor that several ranks hold together."""

    parts: tuple[int, ...]
    """Ranks whose parts add up to the whole, this one included; it alone where it holds the whole."""
    mesh: tuple[int, ...]
    """All ranks that the tensor is distributed over."""
    shape: tuple[int, ...]
    """The shape of the whole."""
    held: tuple[Tensor, ...]
    """For each dimension the indices of the whole that this rank has, in the order of its local tensor."""

    disjoint: bool = True
    """Whether the parts are different elements; else they are terms of a sum over the same ones."""
    run: tuple[int, int] | None = None
    """In place of `held`: the part is these elements of the flattened whole."""

    @property
    def span(self) -> list[list[int]]:
        """First index that this rank has and the one after its last, for each dimension or of the flattened whole."""
        if self.run is not None:
            return [list(self.run)]
        return [[int(index[0]), int(index[-1]) + 1] if len(index) else [0, 0] for index in self.held]


def is_distributed(tensor: object) -> bool:
    """Whether a tensor is a DTensor; asked without importing the class, which takes a second."""
    return type(tensor).__name__ == "DTensor"


def local(tensor: Any) -> Tensor:
    """This rank's own numbers: of a DTensor what it holds, any other tensor as it is."""
    found: Tensor = tensor._local_tensor if is_distributed(tensor) else tensor
    # an AsyncCollectiveTensor: the collective is under way, and the script's own
    return found.wait() if hasattr(found, "wait") else found


def is_whole(tensor: Any) -> bool:
    """Whether this rank holds all of a tensor: no part of it is elsewhere."""
    return not is_distributed(tensor) or all(placement.is_replicate() for placement in tensor.placements)


def whole(tensor: Any, what: str) -> Tensor:
    """The numbers of a tensor that this rank holds whole.

    Raises:
        TypeError: It does not.
    """
    if not is_whole(tensor):
        raise TypeError(f"{what} is spread over ranks: {tensor.placements}")
    return local(tensor)


def layout_of(tensor: Any) -> Layout:
    """The layout of a DTensor.

    Raises:
        TypeError: Its parts do not add up to the whole, or lie in an order that is not known here.
    """
    order = getattr(tensor._spec, "shard_order", None) or ()
    if any(list(entry.mesh_dims) != sorted(entry.mesh_dims) for entry in order):
        raise TypeError(f"a DTensor is sharded in the unusual order {order}")
    return _layout(tuple(tensor.shape), tensor.device_mesh, tuple(tensor.placements))


@functools.cache
def _layout(shape: tuple[int, ...], mesh: Any, placements: tuple[Any, ...]) -> Layout:
    place = mesh.get_coordinate()
    if place is None:
        raise TypeError("a DTensor lies on a mesh that this rank is no part of")
    for placement in placements:
        if placement.is_partial() and str(getattr(placement, "reduce_op", "sum")) != "sum":
            raise TypeError(f"the parts of a DTensor with placement {placement} do not add up to it")
    disjoint = not any(placement.is_partial() for placement in placements)
    alike = [placement.is_replicate() for placement in placements]
    ranks = mesh.mesh[tuple(at if same else slice(None) for at, same in zip(place, alike, strict=True))]
    held = tuple(_held(size, dim, list(mesh.mesh.shape), place, placements) for dim, size in enumerate(shape))
    return Layout(tuple(ranks.flatten().tolist()), tuple(mesh.mesh.flatten().tolist()), shape, held, disjoint)


def _held(size: int, dim: int, mesh: Sequence[int], place: Sequence[int], placements: Sequence[Any]) -> Tensor:
    """The indices along one dimension that stand at one place of the mesh, as DTensor splits them."""
    index = torch.arange(size, device="cpu")
    for count, at, placement in zip(mesh, place, placements, strict=True):
        if getattr(placement, "dim", None) == dim:
            # _StridedShard: first by the mesh dimensions right of it, then by its own
            pieces = int(getattr(placement, "split_factor", 1))
            index = torch.cat([_chunk(_chunk(index, pieces, piece), count, at) for piece in range(pieces)])
    return index


def _chunk(index: Tensor, count: int, at: int) -> Tensor:
    """One chunk of so many, as torch.chunk makes them; the last ones may be shorter, or empty."""
    size = -(-len(index) // count)
    return index[at * size : (at + 1) * size]
