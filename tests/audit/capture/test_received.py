"""What is sent is held against the gradients of what was received, as the pass left them."""

from __future__ import annotations

import weakref

import pytest

torch = pytest.importorskip("torch")

from failuremap.audit.capture.received import Received  # noqa: E402


@pytest.fixture
def passed():
    """A received tensor behind its backward, and what remembers it."""
    received, tensor = Received(), torch.randn(3, 2)
    received.add(tensor)
    tensor.requires_grad_()
    (tensor + tensor.sin()).sum().backward()
    received.note_gradients()
    return received, tensor


def test_the_gradient_of_a_received_tensor_is_known_once(passed):
    received, tensor = passed

    assert [received.has_gradient(tensor.grad), received.has_gradient(tensor.grad)] == [True, False]


def test_copies_of_it_in_any_type_are_known(passed):
    received, tensor = passed

    assert received.has_gradient(tensor.grad.bfloat16())


@pytest.mark.parametrize(
    "change", [lambda g: g * 2, lambda g: g.mul_(2), lambda g: g[:1], torch.zeros_like],
    ids=["multiple", "multiplied in place", "part", "zeros"],
)  # fmt: skip
def test_anything_else_is_not(passed, change):
    received, tensor = passed

    assert not received.has_gradient(change(tensor.grad))


def test_a_gradient_that_two_passes_have_added_to_is_of_neither(passed):
    received, tensor = passed
    tensor.cos().sum().backward()
    received.note_gradients()

    assert not received.has_gradient(tensor.grad)


def test_a_buffer_that_has_a_gradient_when_it_is_filled_again_is_not_remembered(passed):
    received, tensor = passed
    received.clear()
    received.add(tensor)
    received.note_gradients()

    assert not received.has_gradient(tensor.grad)


def test_tensors_are_not_kept_alive():
    received, tensor = Received(), torch.randn(3)
    received.add(tensor)
    known = weakref.ref(tensor)

    del tensor

    assert known() is None
