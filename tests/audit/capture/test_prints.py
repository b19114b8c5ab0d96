"""A tensor is known again on another rank by one number, however it lies in memory."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from failuremap.audit.capture.prints import handed, print_of, prints_of  # noqa: E402


def test_the_same_tensor_has_the_same_number_wherever_it_lies():
    tensor = torch.randn(6, 4)

    assert print_of(tensor) == print_of(tensor.t().contiguous().t()) == print_of(tensor.clone().requires_grad_())


def test_another_tensor_has_another_number():
    tensor = torch.randn(6, 4)

    assert len({print_of(other).item() for other in (tensor, tensor.flip(0), 2 * tensor, tensor.t())}) == 4


def test_a_type_that_loses_nothing_keeps_the_number():
    tensor = torch.randn(5).bfloat16()

    assert print_of(tensor) == print_of(tensor.float())


@pytest.mark.parametrize(
    "tensor", [torch.ones(()), torch.ones(3, dtype=torch.int64), torch.ones(3, device="meta"), None, 2.0],
    ids=["one number", "whole numbers", "no memory", "nothing", "no tensor"],
)  # fmt: skip
def test_what_is_no_activation_has_no_number(tensor):
    assert prints_of([tensor]) == []


def test_the_gradients_that_a_backward_is_given_are_found():
    given = torch.randn(3)
    roots = [torch.randn(3)]

    found = [
        handed("backward", (roots, [given]), {}),
        handed("backward", (roots,), {"grad_tensors": given}),
        handed("grad", (roots, roots, [given]), {}),
        handed("grad", (roots, roots), {"grad_outputs": (None, given)}),
    ]

    assert found == [[print_of(given)]] * 4
    assert handed("backward", (roots,), {}) == handed("grad", (roots, roots), {}) == []
