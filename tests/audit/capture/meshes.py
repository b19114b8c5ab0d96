"""Meshes of ranks without processes: the layouts of all ranks, worked out in one."""

from __future__ import annotations

import itertools
import math


class Mesh:
    """A mesh as one rank sees it: no process group behind it."""

    def __init__(self, torch, *shape: int, place: tuple[int, ...]) -> None:
        self.mesh, self._place = torch.arange(math.prod(shape)).view(shape), list(place)

    def get_coordinate(self):
        return self._place


def layouts(torch, shape, mesh, split):
    """The layouts of all ranks of a mesh."""
    from failuremap.audit.capture.held import layout

    places = itertools.product(*(range(count) for count in mesh))
    return [layout._layout.__wrapped__(shape, Mesh(torch, *mesh, place=place), split) for place in places]
