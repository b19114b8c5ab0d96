"""Whether a tensor equals a parameter up to the rounding of the parameter's type, whole or as a run of a longer one."""

from __future__ import annotations

import weakref

import pytest

torch = pytest.importorskip("torch")

from failuremap.audit.capture.held.likeness import Likeness  # noqa: E402
from failuremap.audit.capture.sketches.sketch import Sketch  # noqa: E402
from failuremap.audit.capture.watching import Watched  # noqa: E402

pytestmark = pytest.mark.torch

SHAPES = [(3, 5), (40, 20), (90, 130), (130,)]


@pytest.fixture
def drawn():
    """Draws numbers, the same ones in each run."""
    generator = torch.Generator().manual_seed(0)
    return lambda shape: torch.randn(shape, generator=generator)


def watched(tensors):
    """The parameters as the recorder knows them; somebody else holds the tensors."""
    return [
        Watched(number, weakref.ref(tensor), Sketch(tuple(tensor.shape)), "bfloat16", tuple(tensor.shape))
        for number, tensor in enumerate(tensors)
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_copy_equals_the_parameter_that_is_its_rounding(shape, dtype, drawn):
    copy = drawn(shape)
    tensors = [copy.to(dtype), drawn(shape).to(dtype)]
    parameters = watched(tensors)

    assert Likeness(parameters).equal_to(copy) == parameters[:1]
    assert Likeness(parameters).equal_to(copy.reshape(-1)) == parameters[:1]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_element_that_is_further_off_than_rounding_is_seen(shape, drawn):
    copy = drawn(shape)
    tensor = copy.bfloat16()
    (parameter,) = watched([tensor])
    likeness = Likeness([parameter])
    moved = copy.clone()
    moved.view(-1)[7] += 20 * copy.norm()

    assert likeness.equal_to(copy) == [parameter]
    assert likeness.equal_to(moved) == []
    assert likeness.equal_to(copy * 1.02) == []


def test_numbers_below_the_types_smallest_are_zeros_there():
    tensor = torch.zeros(4, dtype=torch.float16)
    parameters = watched([tensor])

    assert Likeness(parameters).equal_to(torch.full((4,), 1e-8)) == parameters
    assert Likeness(parameters).equal_to(torch.full((4,), 1e-3)) == []


@pytest.mark.parametrize("backward", [False, True])
def test_parameters_are_found_where_they_lie_one_after_another(backward, drawn):
    tensors = [drawn(shape).bfloat16() for shape in SHAPES]
    parameters = watched(tensors)
    order = list(reversed(parameters)) if backward else parameters
    flat = torch.cat([tensor.float().view(-1) for tensor in (reversed(tensors) if backward else tensors)])

    placed = Likeness(parameters).laid_out(flat)

    starts = [0]
    for parameter in order[:-1]:
        starts.append(starts[-1] + parameter.sketch.size)
    assert placed == list(zip(order, starts, strict=True))


def test_parameters_that_are_not_there_are_passed_over_and_zeros_may_follow(drawn):
    tensors = [drawn(shape).bfloat16() for shape in SHAPES]
    parameters = watched(tensors)
    flat = torch.cat([tensors[0].float().view(-1), tensors[3].float().view(-1), torch.zeros(5)])

    assert Likeness(parameters).laid_out(flat) == [(parameters[0], 0), (parameters[3], 15)]


def test_a_tensor_with_something_else_in_it_is_no_copy(drawn):
    tensors = [drawn(shape).bfloat16() for shape in SHAPES]
    parameters = watched(tensors)
    flat = torch.cat([tensor.float().view(-1) for tensor in tensors])
    cut = flat[: len(flat) // 2]

    assert Likeness(parameters).laid_out(torch.cat([flat, torch.ones(1)])) == []
    assert Likeness(parameters).laid_out(cut) == []
    assert Likeness(parameters).laid_out(drawn((len(flat),))) == []
