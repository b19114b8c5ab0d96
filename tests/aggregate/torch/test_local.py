"""attach in one process without a wrapper: windows, empty micro-batches, low precision, and what it says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from aggregate.exact_data import nearest
from failuremap import InvalidArgument

pytestmark = pytest.mark.torch


@pytest.fixture
def torch() -> Any:
    """PyTorch, imported when a test needs it."""
    return pytest.importorskip("torch")


@pytest.fixture
def attach() -> Callable[..., Any]:
    """`failuremap.attach`."""
    from failuremap import attach

    return attach


def linear(torch: Any, dtype: str = "float32") -> Any:
    """Return a model of one weight; the gradient of a unit's loss is the unit itself."""
    return torch.nn.Linear(1, 1, bias=False, dtype=getattr(torch, dtype))


def train(torch: Any, model: Any, handle: Any, window: Sequence[Sequence[float]], loss: str = "mean") -> bool:
    model.zero_grad()
    for units in window:
        losses = model(torch.tensor(units or [torch.nan]).to(model.weight.dtype)[:, None])
        handle.backward(losses.mean() if loss == "mean" else losses.sum(), count=len(units))
    return handle.step()


@pytest.mark.parametrize("loss", ["mean", "sum"])
@pytest.mark.parametrize("exact", [False, True])
def test_every_unit_of_the_window_weighs_the_same(torch: Any, attach: Any, loss: str, exact: bool) -> None:
    model = linear(torch)
    handle = attach(model, loss=loss, exact=exact)

    for window in ([[8.0], [1.0, 3.0, 4.0]], [[], [4.0], []], [[1.0, 2.0]]):
        assert train(torch, model, handle, window, loss)

        units = [unit for part in window for unit in part]
        assert model.weight.grad.item() == sum(units) / len(units)
        assert handle.report.counts == {0: len(units)}


@pytest.mark.parametrize("exact", [False, True])
def test_without_any_unit_nothing_is_left_to_step_on(torch: Any, attach: Any, exact: bool) -> None:
    model = linear(torch)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.5)
    before = model.weight.item()

    updated = train(torch, model, attach(model, loss="mean", exact=exact), [[], []])
    optimizer.step()

    assert not updated
    assert model.weight.grad is None and model.weight.item() == before


def test_a_count_may_be_a_tensor(torch: Any, attach: Any) -> None:
    model = linear(torch)
    handle = attach(model, loss="sum")

    handle.backward(model(torch.tensor([[2.0], [6.0]])).sum(), count=torch.ones(2).bool().sum())

    assert handle.step() and model.weight.grad.item() == 4.0


def test_a_scaled_loss_is_unscaled_after_the_step(torch: Any, attach: Any) -> None:
    model = linear(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    handle = attach(model, loss="mean")
    before = model.weight.item()

    for units in ([1.0, 2.0, 3.0], [10.0]):
        handle.backward(scaler.scale(model(torch.tensor(units)[:, None]).mean()), count=len(units))
    handle.step()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)

    assert before - model.weight.item() == pytest.approx(4.0, rel=1e-6)


def test_a_loss_of_low_precision_does_not_round_the_weights(torch: Any, attach: Any) -> None:
    counts = (277, 631)  # 277 / 512 and 631 / 512 take more than bfloat16's 8 bits
    model = linear(torch, "bfloat16")
    handle = attach(model, loss="mean")
    for count, value in zip(counts, (256.0, 0.0), strict=True):
        handle.backward(model(torch.full((1, 1), value, dtype=torch.bfloat16)).mean(), count=count)
    handle.step()

    exact = Fraction(277 * 256, sum(counts))
    rounded = Fraction(float(torch.tensor(277 / 512).bfloat16())) * 512 * 256 / sum(counts)
    assert abs(model.weight.grad.item() - exact) <= exact / 2**8  # two roundings, each within 2^-9
    assert abs(rounded - exact) > exact / 2**11  # what the weight alone would have been off by


@pytest.mark.parametrize("empty_count", [0, 2])
def test_the_mean_of_large_float16_counts_does_not_overflow(torch: Any, attach: Any, empty_count: int) -> None:
    model = linear(torch, "float16")
    handle = attach(model, loss="mean")
    for _ in range(empty_count):
        handle.backward(model(torch.ones(1, 1, dtype=torch.float16)).mean(), count=0)

    handle.backward(model(torch.full((1, 1), 100.0, dtype=torch.float16)).mean(), count=4000)

    assert handle.step() and model.weight.grad.item() == pytest.approx(100.0, rel=2 / 2**11)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5)])
def test_exact_gradients_lie_as_their_parameters_do(torch: Any, attach: Any, shape: tuple[int, ...]) -> None:
    memory = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    model = torch.nn.ParameterList([torch.zeros(shape).to(memory_format=memory)])
    handle = attach(model, "mean", exact=True)
    values = torch.arange(float(model[0].numel())).reshape(shape)

    for factor in (1.0, 2.0, 4.0):
        handle.backward((model[0] * values * factor).sum())
    handle.step()

    expected = [nearest(Fraction(7 * index, 3), "float32") for index in range(values.numel())]
    assert model[0].grad.flatten().tolist() == expected


def test_parameters_that_come_or_thaw_later_follow_the_rule_too(torch: Any, attach: Any) -> None:
    model = torch.nn.ParameterList([torch.zeros(()), torch.zeros(())])
    model[1].requires_grad_(False)
    handle = attach(model, "mean")
    model[1].requires_grad_(True)
    model.append(torch.nn.Parameter(torch.zeros(())))

    for value in (1.0, 5.0):
        handle.backward(value * sum(model))
    handle.step()

    assert [parameter.grad.item() for parameter in model] == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("rule", ["mean", "sum"])
def test_rules_without_counts_take_each_micro_batch_as_it_is(torch: Any, attach: Any, rule: str) -> None:
    model = linear(torch)
    handle = attach(model, rule)

    for value in (1.0, 2.0, 6.0):
        handle.backward(model(torch.tensor([[value]])).sum())
    handle.step()

    assert model.weight.grad.item() == (3.0 if rule == "mean" else 9.0)
    assert handle.report.coefficients == {0: 1 if rule == "mean" else 3}


def test_infinity_excludes_or_raises_where_that_is_asked_for(torch: Any, attach: Any) -> None:
    from failuremap import StepVoid

    model = linear(torch)
    assert not train(torch, model, attach(model, loss="mean", nonfinite="exclude"), [[torch.inf], [1.0]])
    assert model.weight.grad is None

    model = linear(torch)
    with pytest.raises(StepVoid, match=r"^the gradient of rank 0 holds infinity or NaN, and nonfinite='raise'\. This "):
        train(torch, model, attach(model, loss="mean", nonfinite="raise"), [[torch.inf], [1.0]])

    model = linear(torch)
    assert train(torch, model, attach(model, loss="mean"), [[torch.inf], [1.0]])
    assert model.weight.grad.item() == torch.inf


def test_what_is_no_model_no_loss_or_no_rule_is_refused(torch: Any, attach: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^model is of type NoneType; expected a torch\.nn\.Module\.$"):
        attach(None, loss="mean")
    for name in ("rule", "loss", "nonfinite"):
        with pytest.raises(InvalidArgument, match=f"^{name}=array"):
            attach(linear(torch), **{"loss": "mean", name: np.array(["mean", "sum"])})
    handle = attach(linear(torch), loss="mean")
    with pytest.raises(InvalidArgument, match=r"^loss is of type float on rank 0; expected a tensor of one number\.$"):
        handle.backward(3.0, count=1)


def test_counts_are_at_most_what_float64_holds(torch: Any, attach: Any) -> None:
    model = linear(torch)
    handle = attach(model, loss="mean")

    with pytest.raises(InvalidArgument, match=r"^count=9007199254740993 on rank 0 is above 2\*\*53; expected "):
        handle.backward(model(torch.ones(1, 1)).mean(), count=2**53 + 1)
    handle.backward(model(torch.ones(1, 1)).mean(), count=2**53)

    assert handle.step() and model.weight.grad.item() == 1.0


def test_a_parameter_given_twice_is_clipped_once(torch: Any) -> None:
    from failuremap import clip_grad_norm_

    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])

    assert clip_grad_norm_([weight, weight], 1.0).item() == 5.0
    assert weight.grad.norm().item() == pytest.approx(1.0, rel=1e-5)


def test_without_torch_the_error_is_the_line_that_installs_it() -> None:
    code = "import sys; sys.modules['torch'] = None; import failuremap; failuremap.attach"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    line = "failuremap.attach needs PyTorch. Install it with:  pip install 'failuremap[torch]'"
    assert run.stderr.strip().endswith(line)
