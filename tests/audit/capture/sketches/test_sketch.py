"""Sketches are linear, so shards add up; they see every element, change nothing, and are the same on every rank."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch

RAW = [(), (1,), (7,), (128,), (8, 16), (2, 4, 16)]
LARGE = [(129,), (1009,), (131, 3), (512, 8), (64, 64), (7, 11, 13), (3, 5, 7, 11), (2, 70_001), (100_003,)]
EMPTY = [(0,), (0, 5), (4, 0)]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def sketch_of(torch):
    """A function that makes the sketch of all tensors of a shape."""
    from failuremap.audit.capture.sketches.sketch import Sketch

    return Sketch


def drawn(torch, shape, seed: int = 0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(first, second, tolerance: float = 1e-5):
    size = max(float(first.norm()), float(second.norm()), 1e-30)
    return float((first - second).norm()) <= tolerance * size


@pytest.mark.parametrize("shape", RAW + LARGE, ids=str)
def test_a_sketch_is_linear(shape, torch, sketch_of):
    sketch, x, y = sketch_of(shape), drawn(torch, shape), drawn(torch, shape, 1)

    assert close(sketch(3 * x - 0.5 * y), 3 * sketch(x) - 0.5 * sketch(y))


@pytest.mark.parametrize("shape", RAW + LARGE, ids=str)
def test_a_sketch_of_something_else_is_another(shape, torch, sketch_of):
    sketch = sketch_of(shape)

    assert not close(sketch(drawn(torch, shape)), sketch(drawn(torch, shape, 1)))


@pytest.mark.parametrize("shape", [shape for shape in RAW + LARGE if shape], ids=str)
def test_the_sketches_of_shards_add_up_to_that_of_the_whole(shape, torch, sketch_of):
    sketch, whole = sketch_of(shape), drawn(torch, shape)
    shards = torch.zeros(3, *shape)
    for place, rows in enumerate(torch.arange(shape[0]).chunk(3)):
        shards[place, rows] = whole[rows]

    assert close(sum(sketch(shard) for shard in shards), sketch(whole))


@pytest.mark.parametrize("shape", RAW + LARGE + EMPTY, ids=str)
def test_a_sketch_has_as_many_numbers_as_it_says(shape, torch, sketch_of):
    sketch, tensor = sketch_of(shape), drawn(torch, shape)

    assert sketch(tensor).shape == (sketch.row_count,)
    assert sketch.coordinates(tensor).shape == (sketch.coordinate_count,)
    assert (sketch(tensor).dtype, sketch.coordinates(tensor).dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("shape", RAW, ids=str)
def test_a_small_tensor_is_its_own_sketch(shape, torch, sketch_of):
    tensor = drawn(torch, shape)

    assert torch.equal(sketch_of(shape)(tensor), tensor.reshape(-1))


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_a_large_tensor_has_64_of_its_elements_and_64_sums(shape, torch, sketch_of):
    sketch, tensor = sketch_of(shape), drawn(torch, shape)

    assert (sketch.coordinate_count, sketch.row_count) == (64, 128)
    assert torch.equal(sketch(tensor)[:64], sketch.coordinates(tensor))
    assert bool(torch.isin(sketch.coordinates(tensor), tensor).all())


@pytest.mark.parametrize("shape", [(129,), (131, 3), (7, 11, 13)], ids=str)
def test_every_element_is_in_exactly_one_sum_with_a_sign(shape, torch, sketch_of):
    sketch = sketch_of(shape)
    for place in range(drawn(torch, shape).numel()):
        one = torch.zeros(shape)
        one.view(-1)[place] = 1

        assert sorted(sketch(one)[64:].abs().tolist())[-2:] == [0, 1]


def test_the_signs_are_balanced(torch, sketch_of):
    sketch, signs = sketch_of((300, 70)), []
    for place in range(0, 21_000, 230):
        one = torch.zeros(300, 70)
        one.view(-1)[place] = 1
        signs.append(float(sketch(one)[64:].sum()))

    assert set(signs) == {-1.0, 1.0}
    assert abs(sum(signs)) < 5 * len(signs) ** 0.5


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_all_ranks_make_the_same_sketch_and_no_random_number_of_the_job_is_used(shape, torch, sketch_of):
    before, tensor = torch.get_rng_state(), drawn(torch, shape)
    first, second = sketch_of(shape), sketch_of(shape)

    assert torch.equal(first(tensor), second(tensor))
    assert torch.equal(before, torch.get_rng_state())


def test_the_sketch_of_another_shape_is_another(torch, sketch_of):
    tensor = drawn(torch, (64, 32))

    assert not torch.equal(sketch_of((64, 32))(tensor), sketch_of((32, 64))(tensor.reshape(32, 64)))


@pytest.mark.parametrize("shape", RAW + LARGE, ids=str)
def test_nothing_of_the_tensor_is_changed_or_kept(shape, torch, sketch_of):
    tensor = drawn(torch, shape)
    copy = tensor.clone()

    result = sketch_of(shape)(tensor)
    assert torch.equal(tensor, copy)
    kept = result.clone()
    tensor.zero_()
    assert torch.equal(result, kept)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
@pytest.mark.parametrize("shape", [(), (8, 16), (512, 8), (131, 3), (1030, 1030)], ids=str)
def test_a_tensor_of_another_type_is_sketched_in_float32(shape, dtype, torch, sketch_of):
    tensor, sketch = drawn(torch, shape).to(getattr(torch, dtype)), sketch_of(shape)

    assert sketch(tensor).dtype == torch.float32
    assert close(sketch(tensor), sketch(tensor.float()))


@pytest.mark.parametrize("shape", [(8, 16), (64, 40), (7, 11, 13)], ids=str)
def test_a_view_that_is_not_contiguous_has_the_sketch_of_its_copy(shape, torch, sketch_of):
    tensor = drawn(torch, shape[::-1]).permute(*reversed(range(len(shape))))

    assert not tensor.is_contiguous()
    assert close(sketch_of(shape)(tensor), sketch_of(shape)(tensor.contiguous()), 1e-6)


# ---- sparse gradients of embeddings


def sparse(torch, shape, rows, seed: int = 0):
    values = drawn(torch, (len(rows), *shape[1:]), seed)
    return torch.sparse_coo_tensor(torch.tensor([rows], dtype=torch.long), values, shape, check_invariants=True)


@pytest.mark.parametrize("shape", [(16, 8), (500, 8), (40, 33), (300, 4, 9)], ids=str)
@pytest.mark.parametrize("rows", [[1, 5, 15], [7, 3, 3, 7, 0]], ids=str)
def test_a_sparse_tensor_has_the_sketch_of_the_dense_one(shape, rows, torch, sketch_of):
    tensor, sketch = sparse(torch, shape, rows), sketch_of(shape)

    assert close(sketch(tensor), sketch(tensor.to_dense()))
    assert close(sketch.coordinates(tensor), sketch.coordinates(tensor.to_dense()))


def test_a_sparse_row_that_is_not_sampled_is_seen_by_the_sums(torch, sketch_of):
    sketch = sketch_of((50_000, 4))
    seen = [bool(sketch(sparse(torch, (50_000, 4), [row]))[64:].any()) for row in (0, 1, 777, 49_999)]

    assert seen == [True] * 4


@pytest.mark.parametrize("shape", [(16, 8), (500, 8), (300, 4, 9)], ids=str)
def test_a_sparse_tensor_without_any_row_has_a_sketch_of_zeros(shape, torch, sketch_of):
    assert not sketch_of(shape)(sparse(torch, shape, [])).any()
