"""What an optimizer steps on in place of the model's parameters is found by its numbers, or told to be unknown."""

from __future__ import annotations

import numpy as np
import pytest

from audit.capture.watched import watch

pytestmark = pytest.mark.torch

# biases of zeros and norms of ones: of each two that equal each other at first
MODEL = """
from torch import nn
model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3)).bfloat16()
for layer in (model[0], model[2]):
    nn.init.zeros_(layer.bias)
x, y = torch.randn(5, 4).bfloat16(), torch.tensor([0, 1, 2, 0, 1])
weights = list(model.parameters())
def back(factor=1.0):
    (factor * F.cross_entropy(model(x).float(), y)).backward()
"""
EACH = (
    MODEL
    + """
copies = [weight.detach().clone().float().requires_grad_() for weight in weights]
step = torch.optim.SGD(copies, lr=0.1)
def take(factor=2.0):
    for copy, weight in zip(copies, weights):
        copy.grad = factor * weight.grad.float()
    step.step()
    for copy, weight in zip(copies, weights):
        weight.data.copy_(copy.data)
        weight.grad = None
"""
)
FLAT = (
    MODEL
    + """
flat = torch.cat([weight.detach().float().view(-1) for weight in weights]).requires_grad_()
step = torch.optim.SGD([flat], lr=0.1)
def take(factor=2.0):
    flat.grad = torch.cat([factor * weight.grad.float().view(-1) for weight in weights])
    step.step()
    for run, weight in zip(flat.data.split([weight.numel() for weight in weights]), weights):
        weight.data.copy_(run.view_as(weight))
        weight.grad = None
"""
)
NAMES = [f"{layer}.{name}" for layer in range(5) for name in ("bias", "weight")]


@pytest.mark.parametrize("source", [EACH, EACH.replace(".requires_grad_()", ""), FLAT], ids=["each", "plain", "flat"])
def test_a_step_on_copies_is_one_on_the_parameters_that_they_equal(source, job_server, tmp_path):
    seen = watch(job_server, tmp_path, source + "for _ in range(3): back(); take()")

    assert seen.errors == []
    assert [step.fields["optimizer"] for step in seen.of("step")] == [0, 0, 0]
    for backward, step in zip(seen.of("backward"), seen.of("step"), strict=True):
        update, local = seen.numbers(step), seen.numbers(backward)
        assert sorted(update) == NAMES
        for name in update:
            np.testing.assert_allclose(update[name], 2 * local[name], rtol=1e-6)
    assert {key for step in seen.of("step") for key in step.fields} & {"unmatched", "unlike"} == set()


def test_of_two_copies_of_one_parameter_neither_is_taken(job_server, tmp_path):
    twins = """
twins = [copy.detach().clone().requires_grad_() for copy in copies]
step.add_param_group({"params": twins})
back()
for twin, weight in zip(twins, weights):
    twin.grad = weight.grad.float()
take()
"""
    (step,) = watch(job_server, tmp_path, EACH + twins).of("step")

    assert step.fields["unmatched"] == 20


@pytest.mark.parametrize("source", [EACH, FLAT], ids=["each", "flat"])
def test_a_copy_that_equals_no_parameter_is_taken_for_none(source, job_server, tmp_path):
    moved = "copies = copies" if source is EACH else "copies = [flat]"
    seen = watch(job_server, tmp_path, source + f"{moved}\nfor copy in copies: copy.data += 1\nback(); take()")

    assert seen.of("step")[0].fields["unmatched"] == (10 if source is EACH else 1)


def test_copies_that_are_not_copied_back_are_told(job_server, tmp_path):
    forgotten = EACH.replace("weight.data.copy_(copy.data)", "pass") + "for _ in range(2): back(); take()"

    first, second = watch(job_server, tmp_path, forgotten).of("step")

    assert "unlike" not in first.fields
    assert sorted(second.fields["unlike"]) == NAMES


def test_what_an_optimizer_steps_on_itself_is_no_copy_and_has_none(job_server, tmp_path):
    beside = "other = torch.optim.SGD(weights[:1], lr=0.1)\nback(); other.step(); take()"

    first, second = watch(job_server, tmp_path, EACH + beside).of("step")

    assert first.fields["unwatched"] == [] and len(first.fields["parameters"]) == 1
    assert second.fields["unmatched"] == 1


def test_gradients_that_are_added_up_in_copies_are_said_to_be_there(job_server, tmp_path):
    added = """
for _ in range(2):
    for copy in copies: copy.grad = None
    for _ in range(2):
        back()
        for copy, weight in zip(copies, weights):
            copy.grad = weight.grad.float() + (0 if copy.grad is None else copy.grad)
            weight.grad = None
    step.step()
    for copy, weight in zip(copies, weights): weight.data.copy_(copy.data)
"""
    seen = watch(job_server, tmp_path, EACH + added)

    assert [record.fields.get("kept_in_copies", False) for record in seen.of("backward")] == [False, True] * 2
    assert [len(record.fields["kept"]) for record in seen.of("backward")] == [0, 10] * 2


def test_what_the_last_step_left_in_a_copy_was_not_added_up(job_server, tmp_path):
    seen = watch(job_server, tmp_path, EACH + "for _ in range(3): back(); take()")

    assert [record.fields["kept"] for record in seen.of("backward")] == [[]] * 3


# one parameter of its own numbers for each two that equal others
ALIKE = """
from torch import nn
model = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(6, 6), nn.LayerNorm(6))]).bfloat16()
x, y = torch.randn(5, 6).bfloat16(), torch.tensor([0, 1, 2, 0, 1])
weights = ORDER(list(model.parameters()))
copies = [weight.detach().clone().float() for weight in weights]
step = torch.optim.SGD(copies, lr=0.1)
F.cross_entropy(model(x).float(), y).backward()
for copy, weight in zip(copies, weights):
    copy.grad = weight.grad.float()
step.step()
"""


@pytest.mark.parametrize(
    "order",
    ["lambda w: w", "lambda w: w[::-1]", "lambda w: [p for p in w if p.dim() > 1] + [p for p in w if p.dim() < 2]"],
)
def test_copies_that_equal_several_parameters_are_told_by_the_order_of_the_others(order, job_server, tmp_path):
    seen = watch(job_server, tmp_path, ALIKE.replace("ORDER", f"({order})"))

    (step,) = seen.of("step")
    update, local = seen.numbers(step), seen.numbers(seen.of("backward")[0])
    assert len(update) == 12
    for name in update:
        np.testing.assert_array_equal(update[name], local[name])
    assert {seen.names[id] for id in step.fields["by_order"]} == {
        f"{n}.{p}" for n in (1, 3, 5) for p in ("weight", "bias")
    }


def test_where_the_others_are_in_no_order_they_are_told_to_be_unknown(job_server, tmp_path):
    mixed = "(lambda w: [w[i] for i in (4, 5, 0, 1, 9, 2, 3, 8, 6, 7, 10, 11)])"
    seen = watch(job_server, tmp_path, ALIKE.replace("ORDER", mixed))

    assert seen.of("step")[0].fields["unmatched"] == 6
