"""The sketches of disjoint shards add up to that of the whole, however the whole is split."""

from __future__ import annotations

import pytest

from audit.capture.meshes import layouts

pytestmark = pytest.mark.torch

RAW = [(7,), (128,), (8, 16), (2, 4, 16)]
LARGE = [(129,), (1009,), (131, 3), (512, 8), (64, 64), (7, 11, 13), (3, 5, 7, 11), (2, 70_001), (100_003,)]
EMPTY = [(0,), (0, 5), (4, 0)]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def placements():
    return pytest.importorskip("torch.distributed.tensor.placement_types")


def drawn(torch, shape, seed: int = 0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def taken(whole, layout):
    """The local tensor of a layout."""
    for dim, index in enumerate(layout.held):
        whole = whole.index_select(dim, index)
    return whole


def added_up(torch, shape, mesh, split, whole):
    """The sketch of the whole, and the sum of those of all shards."""
    from failuremap.audit.capture.sketches.shard_sketch import ShardSketch
    from failuremap.audit.capture.sketches.sketch import Sketch

    sketch = Sketch(shape)
    parts = [ShardSketch(sketch, layout)(taken(whole, layout)) for layout in layouts(torch, shape, mesh, split)]
    return sketch(whole), sum(parts)


def close(first, second, tolerance: float = 1e-5):
    size = max(float(first.norm()), float(second.norm()), 1e-30)
    return float((first - second).norm()) <= tolerance * size


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", RAW + LARGE + EMPTY, ids=str)
def test_shards_of_the_first_dimension_add_up(shape, count, torch, placements):
    whole, parts = added_up(torch, shape, (count,), (placements.Shard(0),), drawn(torch, shape))

    assert close(whole, parts)


@pytest.mark.parametrize("shape", [shape for shape in RAW + LARGE + EMPTY if len(shape) > 1], ids=str)
def test_shards_of_the_last_dimension_add_up(shape, torch, placements):
    last = placements.Shard(len(shape) - 1)

    whole, parts = added_up(torch, shape, (3,), (last,), drawn(torch, shape))

    assert close(whole, parts)


@pytest.mark.parametrize("shape", [shape for shape in RAW + LARGE if len(shape) > 1], ids=str)
def test_shards_of_two_dimensions_add_up(shape, torch, placements):
    split = (placements.Shard(0), placements.Shard(1))

    whole, parts = added_up(torch, shape, (2, 3), split, drawn(torch, shape))

    assert close(whole, parts)


@pytest.mark.parametrize("shape", RAW + LARGE, ids=str)
def test_shards_of_shards_add_up(shape, torch, placements):
    split = (placements._StridedShard(0, split_factor=2), placements.Shard(0))

    whole, parts = added_up(torch, shape, (3, 2), split, drawn(torch, shape))

    assert close(whole, parts)


def test_a_shard_in_the_place_of_its_neighbour_does_not_add_up(torch, placements):
    from failuremap.audit.capture.sketches.shard_sketch import ShardSketch
    from failuremap.audit.capture.sketches.sketch import Sketch

    whole, sketch = drawn(torch, (64, 64)), Sketch((64, 64))
    first, second = layouts(torch, (64, 64), (2,), (placements.Shard(0),))
    crossed = ShardSketch(sketch, first)(taken(whole, second)) + ShardSketch(sketch, second)(taken(whole, first))

    assert not close(sketch(whole), crossed)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(64, 64), (512, 8)], ids=str)
def test_other_types_add_up_too(shape, dtype, torch, placements):
    whole = drawn(torch, shape).to(getattr(torch, dtype))

    sketch, parts = added_up(torch, shape, (3,), (placements.Shard(0),), whole)

    assert close(sketch, parts)


def test_the_sampled_elements_of_a_shard_are_those_of_the_whole_and_zero_elsewhere(torch, placements):
    from failuremap.audit.capture.sketches.pieces import together
    from failuremap.audit.capture.sketches.shard_sketch import ShardSketch
    from failuremap.audit.capture.sketches.sketch import Sketch

    whole, sketch = drawn(torch, (512, 8)), Sketch((512, 8))
    for layout in layouts(torch, (512, 8), (4,), (placements.Shard(0),)):
        shard = ShardSketch(sketch, layout)
        found = torch.from_numpy(together([shard.sample(taken(whole, layout))]))

        held = sketch.coordinates(whole)[shard.positions]
        assert torch.equal(found[shard.positions], held)
        assert int((found != 0).sum()) == len(shard.positions)
        first, stop = layout.span[0]
        assert shard.positions == [i for i, at in enumerate(sketch.index.tolist()) if first <= at // 8 < stop]


def test_a_tensor_of_another_shape_is_no_shard(torch, placements):
    from failuremap.audit.capture.sketches.shard_sketch import ShardSketch
    from failuremap.audit.capture.sketches.sketch import Sketch

    layout = layouts(torch, (64, 64), (2,), (placements.Shard(0),))[0]

    with pytest.raises(TypeError, match=r"a shard has the shape \(3, 64\), expected \(32, 64\)"):
        ShardSketch(Sketch((64, 64)), layout)(torch.zeros(3, 64))
