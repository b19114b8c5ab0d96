"""Tensors in memory: the numbers and the laws are those of lists and arrays; dtype and kind come back."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from aggregate.exact_data import exact_value, hard_rows
from failuremap.aggregate import aggregate
from failuremap.aggregate.accumulator import Accumulator
from failuremap.aggregate.exact import exact_sum
from failuremap.aggregate.exact_formats import bfloat16_bits
from failuremap.errors import InvalidArgument

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

FLOATS = ["float16", "bfloat16", "float32", "float64"]


def of_bits(bits: int) -> float:
    """Return the number that 16 bits stand for as a bfloat16."""
    return float(np.array([bits << 16], np.uint32).view(np.float32)[0])


def nearest_bfloat16(value: Fraction) -> float:
    """Round to nearest, ties to even, by trying the neighbours of the magnitude with its last bits cut off."""
    if abs(value) >= Fraction(of_bits(0x7F7F)) + 2**119:
        return float("inf" if value > 0 else "-inf")
    cut = int(np.array([float(abs(value))], np.float32).view(np.uint32)[0]) >> 16
    candidates = [bits for bits in (cut - 1, cut, cut + 1) if 0 <= bits < 0x7F80]
    best = min(candidates, key=lambda bits: (abs(Fraction(of_bits(bits)) - abs(value)), bits & 1))
    return of_bits(best) if value >= 0 else -of_bits(best)


@pytest.mark.parametrize("name", FLOATS)
def test_dtype_shape_and_kind_are_kept(name: str) -> None:
    dtype = getattr(torch, name)
    gradients = [torch.full((2, 3), value, dtype=dtype) for value in (1.0, 3.0)]

    for update in (aggregate(gradients, [1, 3]), aggregate(torch.stack(gradients), [1, 3])):
        assert (type(update), update.dtype, update.shape) == (torch.Tensor, dtype, (2, 3))
        assert update.tolist() == [[2.5] * 3] * 2


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
@pytest.mark.parametrize("seed", range(3))
def test_tensors_and_arrays_agree_bit_for_bit(route: str, name: str, seed: int) -> None:
    rows = hard_rows(np.random.default_rng(seed), name, 40, 4)
    counts = list(range(1, len(rows) + 1))

    actual = aggregate([torch.from_numpy(row) for row in rows], counts).numpy()

    assert actual.tobytes() == aggregate(rows, counts).tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_bfloat16_is_rounded_once(route: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tensors = [torch.from_numpy(row).to(torch.bfloat16) for row in hard_rows(rng, "float32", 40, 4)]
    rows = [tensor.double().numpy() for tensor in tensors]
    weights = [int(rng.integers(1, 500)) for _ in rows]

    for divisor in (1, 8, sum(weights)):
        exact = [exact_value(rows, weights, divisor, index) for index in range(40)]
        actual = exact_sum(tensors, weights, divisor).double().tolist()
        assert actual == [nearest_bfloat16(value) for value in exact]


@pytest.mark.parametrize("numerator", [1, 3, 255, 257, 1023, 65537, 2**20 + 1, 2**40 + 1])
@pytest.mark.parametrize("shift", [0, 8, 16, 140, 150])
def test_bfloat16_bits_are_the_nearest(numerator: int, shift: int) -> None:
    for value in (Fraction(numerator, 2**shift), -Fraction(numerator, 2**shift)):
        (bits,) = bfloat16_bits(np.array([float(value)]))

        assert of_bits(int(bits)) == nearest_bfloat16(value)


def test_negative_control_rounding_twice_misses() -> None:
    value = 1 + 2.0**-8 + 2.0**-40

    assert torch.tensor(value, dtype=torch.float64).to(torch.float32).to(torch.bfloat16).item() == 1.0
    assert bfloat16_bits(np.array([value])) == [0x3F81]


def test_half_precision_does_not_overflow_or_vanish_on_the_way() -> None:
    assert aggregate([torch.full((2,), 60000.0, dtype=torch.float16)] * 4, rule="mean").tolist() == [60000.0] * 2
    small = [torch.tensor([256.0], dtype=torch.bfloat16), *[torch.tensor([0.5], dtype=torch.bfloat16)] * 4]
    assert aggregate(small, rule="sum").tolist() == [258.0]


@pytest.mark.parametrize("name", FLOATS)
def test_layout_changes_nothing(name: str) -> None:
    image = torch.arange(48).reshape(1, 3, 4, 4).to(getattr(torch, name))
    views = {
        "channels last": image.to(memory_format=torch.channels_last),
        "transposed": image.transpose(1, 2).contiguous().transpose(1, 2),
        "every other": image.repeat_interleave(2, dim=3)[..., ::2],
        "expanded": image[:, :1].expand(1, 3, 4, 4),
        "needs a gradient": torch.nn.Parameter(image.clone()),
        "negated view": torch._neg_view(-image),
    }

    for view in views.values():
        assert torch.equal(exact_sum([view, view]), (2 * view.detach()).contiguous())


def test_integers_become_float64_and_do_not_lose_a_bit() -> None:
    update = aggregate([torch.tensor([2**62 + 1]), torch.tensor([-(2**62)])], rule="sum")

    assert (update.dtype, update.tolist()) == (torch.float64, [1.0])


def test_a_models_gradients_are_combined_by_name() -> None:
    gradients = [
        {"w": torch.tensor([[1.0]]), "b": torch.tensor([2.0])},
        {"w": torch.tensor([[3.0]]), "b": torch.tensor([6.0])},
    ]

    update = aggregate(gradients, torch.tensor([1, 3]))

    assert {name: value.tolist() for name, value in update.items()} == {"w": [[2.5]], "b": [5.0]}


def test_zero_counts_and_not_finite_tensors_are_left_out() -> None:
    bad = torch.tensor([float("nan")])

    assert aggregate([bad, torch.tensor([2.0])], [0, 2]).tolist() == [2.0]
    assert aggregate([bad, torch.tensor([2.0])], [5, 2], nonfinite="exclude").tolist() == [2.0]
    assert aggregate([bad], [0]) is None


def test_counts_may_be_tensors() -> None:
    assert aggregate([torch.tensor([1.0]), torch.tensor([3.0])], [torch.tensor(1), torch.tensor(3)]).tolist() == [2.5]


def test_the_input_is_left_as_it_was() -> None:
    tensor = torch.ones(2)

    aggregate([tensor], [1])[0] = 9
    exact_sum([tensor])[0] = 9

    assert tensor.tolist() == [1, 1]


@pytest.mark.parametrize("name", FLOATS)
def test_an_accumulator_holds_a_models_tensors(name: str) -> None:
    dtype = getattr(torch, name)
    parts = [{"w": torch.tensor([value, 1.0], dtype=dtype), "b": torch.tensor(2.0)} for value in (512.0, 1.0, -512.0)]
    results = set()
    for order in itertools.permutations(parts):
        window = Accumulator("sum")
        for part in order:
            window.add(part)
        results.add(str(window.result()))
        assert window.result()["w"].dtype == dtype

    assert len(results) == 1
    assert window.result()["w"].tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            torch.ones(2, device="meta"),
            r"^contributions\[1\] is on device meta; aggregate adds up on the CPU: give \.cpu\(\)\. Gradients ",
        ),
        (
            torch.ones(2).to_sparse(),
            r"^contributions\[1\] has layout torch\.sparse_coo; expected a dense tensor: give ",
        ),
        (
            torch.ones(2, dtype=torch.complex64),
            r"^contributions\[1\] has dtype complex64; expected float16, bfloat16, ",
        ),
        (torch.ones(2, dtype=torch.bool), r"^contributions\[1\] has dtype bool; expected float16, "),
        (
            torch.ones(2).double(),
            r"^contributions\[1\] has dtype float64 but contributions\[0\] has dtype float32; every ",
        ),
        (torch.ones(3), r"^contributions\[1\] has shape \(3,\) but contributions\[0\] has shape \(2,\); every "),
        (
            np.ones(2, np.float32),
            r"^contributions\[1\] is a NumPy array but contributions\[0\] is a tensor; give one kind",
        ),
        (
            torch.ones(2).as_subclass(type("Special", (torch.Tensor,), {})),
            r"^contributions\[1\] is a Special; expected a plain tensor\. Of a DTensor give \.full_tensor\(\)\.$",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(bad: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        aggregate([torch.ones(2), bad], rule="sum")
    with pytest.raises(InvalidArgument, match=message.split(";", maxsplit=1)[0]):
        exact_sum([torch.ones(2), bad])
