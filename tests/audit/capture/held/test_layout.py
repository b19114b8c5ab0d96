"""Where a rank's part of a DTensor lies is worked out as DTensor does, without a word to another rank."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from audit.capture.meshes import Mesh, layouts

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def placements():
    return pytest.importorskip("torch.distributed.tensor.placement_types")


class DTensor:
    """A distributed tensor as far as layouts look at it."""

    def __init__(self, torch, mesh, placements, shape=(4, 6), order=()):
        self.shape, self.device_mesh, self.placements = torch.Size(shape), mesh, placements
        self._local_tensor, self._spec = torch.ones(2), SimpleNamespace(shard_order=order)


@pytest.mark.parametrize("size", [1, 5, 8, 9, 17])
@pytest.mark.parametrize("form", ["plain", "strided", "both", "rows-then-columns"])
def test_a_layout_is_the_one_that_dtensor_computes(size, form, torch, placements):
    from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset as compute

    shard, strided = placements.Shard, placements._StridedShard
    mesh, split = {
        "plain": ((4,), (shard(0),)),
        "strided": ((2, 2), (strided(0, split_factor=2), shard(0))),
        "both": ((2, 3), (shard(0), shard(0))),
        "rows-then-columns": ((2, 2), (shard(0), shard(1))),
    }[form]

    places = itertools.product(*(range(count) for count in mesh))
    for place, layout in zip(places, layouts(torch, (size, 6), mesh, split), strict=True):
        shape, offset = compute((size, 6), mesh, list(place), split)

        assert tuple(len(index) for index in layout.held) == shape
        assert [index[0].item() for index, _ in zip(layout.held, shape, strict=True) if len(index)] == [
            first for first, length in zip(offset, shape, strict=True) if length
        ]


def test_ranks_whose_parts_add_up_are_those_that_differ_in_a_sharded_dimension(torch, placements):
    replicate, shard, partial = placements.Replicate(), placements.Shard(0), placements.Partial()

    assert [layout.parts for layout in layouts(torch, (4, 6), (2, 2), (replicate, shard))] == [
        (0, 1), (0, 1), (2, 3), (2, 3),
    ]  # fmt: skip
    assert [layout.parts for layout in layouts(torch, (4, 6), (2, 2), (partial, replicate))] == [
        (0, 2), (1, 3), (0, 2), (1, 3),
    ]  # fmt: skip
    assert {layout.parts for layout in layouts(torch, (4, 6), (2, 2), (partial, shard))} == {(0, 1, 2, 3)}
    assert {layout.mesh for layout in layouts(torch, (4, 6), (2, 2), (replicate, shard))} == {(0, 1, 2, 3)}


def test_terms_of_a_sum_are_not_disjoint(torch, placements):
    (shard, *_), (term, *_) = (
        layouts(torch, (4, 6), (2,), (placement,)) for placement in (placements.Shard(0), placements.Partial())
    )

    assert (shard.disjoint, term.disjoint) == (True, False)


def test_the_span_of_a_part_is_its_first_index_and_the_one_after_its_last(torch, placements):
    found = [layout.span for layout in layouts(torch, (5, 6), (4,), (placements.Shard(0),))]

    assert found == [[[0, 2], [0, 6]], [[2, 4], [0, 6]], [[4, 5], [0, 6]], [[0, 0], [0, 6]]]


def test_parts_that_do_not_add_up_are_refused(torch, placements):
    with pytest.raises(TypeError, match=r"the parts of a DTensor with placement P\(avg\) do not add up to it|avg"):
        layouts(torch, (4, 6), (2,), (placements.Partial("avg"),))


def test_a_rank_outside_the_mesh_is_refused(torch, placements):
    from failuremap.audit.capture.held import layout

    mesh = Mesh(torch, 2, place=(0,))
    mesh.get_coordinate = lambda: None

    with pytest.raises(TypeError, match="a DTensor lies on a mesh that this rank is no part of"):
        layout._layout.__wrapped__((4, 6), mesh, (placements.Shard(0),))


def test_an_unusual_order_of_shards_is_refused(torch, placements):
    from failuremap.audit.capture.held import layout

    order = (SimpleNamespace(mesh_dims=(1, 0)),)
    tensor = DTensor(torch, Mesh(torch, 2, 2, place=(0, 0)), (placements.Shard(0), placements.Shard(0)), order=order)

    with pytest.raises(TypeError, match="a DTensor is sharded in the unusual order"):
        layout.layout_of(tensor)


def test_the_usual_order_of_shards_is_not(torch, placements):
    from failuremap.audit.capture.held import layout

    order = (SimpleNamespace(mesh_dims=(0, 1)),)
    tensor = DTensor(torch, Mesh(torch, 2, 2, place=(0, 0)), (placements.Shard(0), placements.Shard(0)), order=order)

    assert layout.layout_of(tensor).parts == (0, 1, 2, 3)


def test_whole_is_what_a_rank_has_all_of(torch, placements):
    from failuremap.audit.capture.held.layout import whole

    mesh, plain = Mesh(torch, 2, place=(0,)), torch.ones(3)
    replica = DTensor(torch, mesh, (placements.Replicate(),))

    assert whole(plain, "the loss") is plain
    assert whole(replica, "the loss") is replica._local_tensor
    with pytest.raises(TypeError, match=r"the loss is spread over ranks: \(Shard\(dim=0\),\)"):
        whole(DTensor(torch, mesh, (placements.Shard(0),)), "the loss")
