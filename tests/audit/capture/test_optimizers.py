"""What an optimizer steps on, the weights it starts from, and what clipped the gradient before."""

from __future__ import annotations

import numpy as np
import pytest

from audit.capture.watched import watch

pytestmark = pytest.mark.torch

MODEL = """
model = torch.nn.Linear(4, 3)
x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
def back(scale=1.0):
    (scale * F.cross_entropy(model(x), y)).backward()
"""
SGD = MODEL + "step = torch.optim.SGD(model.parameters(), lr=0.1)\n"


def weights_of(seen, record):
    """The weights before a step, as one list of numbers."""
    return record.payload[sum(seen.rows[id] for id in record.fields["parameters"]) :]


def test_a_step_holds_the_gradient_as_the_optimizer_sees_it(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        SGD
        + """
back()
for p in model.parameters():
    p.grad *= 2
step.step()
""",
    )

    update = seen.numbers(seen.of("step")[0])
    local = seen.numbers(seen.of("backward")[0])
    assert list(update) == ["weight", "bias"]
    for name in update:
        np.testing.assert_allclose(update[name], 2 * local[name], rtol=1e-6)


def test_a_step_holds_the_weights_before_it(job_server, tmp_path):
    seen = watch(job_server, tmp_path, SGD + "back(); step.step(); step.zero_grad(); back(); step.step()")

    first, second = seen.of("step")
    update, before, after = seen.in_order(first), weights_of(seen, first), weights_of(seen, second)
    np.testing.assert_allclose(after, before - 0.1 * update, rtol=1e-5, atol=1e-7)
    assert (first.fields["weights"], second.fields["weights"]) == ("sketch", "coordinates")
    assert (first.fields["count"], second.fields["count"]) == (0, 1)


def test_the_end_holds_the_weights_as_they_are_then(job_server, tmp_path):
    seen = watch(job_server, tmp_path, SGD + "back(); step.step()")

    (step,) = seen.of("step")
    update, before = seen.in_order(step), weights_of(seen, step)
    np.testing.assert_allclose(seen.of("end")[0].payload, before - 0.1 * update, rtol=1e-5, atol=1e-7)
    assert seen.trace.end["steps"] == 1


@pytest.mark.parametrize(
    "make",
    [
        "torch.optim.SGD(model.parameters(), lr=0.1)",
        "torch.optim.AdamW(model.parameters())",
        "torch.optim.AdamW(model.parameters(), fused=True)",
        "torch.optim.Adagrad(model.parameters())",
        "torch.optim.SGD([{'params': [model.weight]}, {'params': [model.bias], 'lr': 0.0}], lr=0.1)",
    ],
    ids=["sgd", "adamw", "fused", "adagrad", "groups"],
)
def test_every_optimizer_of_torch_is_seen(make, job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + f"step = {make}\nback(); step.step()")

    (only,) = seen.of("step")
    np.testing.assert_array_equal(seen.in_order(only), seen.in_order(seen.of("backward")[0]))
    assert seen.errors == []


def test_a_closure_is_seen_after_it_has_run(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        SGD
        + """
def closure():
    step.zero_grad()
    back()
    return torch.tensor(1.0)
for _ in range(2):
    assert step.step(closure).item() == 1.0
assert step.step(closure=closure).item() == 1.0
""",
    )

    assert [record.kind for record in seen.records if record.kind in ("backward", "step")] == ["backward", "step"] * 3
    for backward, step in zip(seen.of("backward"), seen.of("step"), strict=True):
        np.testing.assert_array_equal(seen.in_order(step), seen.in_order(backward))


def test_the_optimizers_own_hooks_come_before_the_look_at_the_gradient(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        SGD
        + """
def double(optimizer, args, kwargs):
    for p in model.parameters():
        p.grad *= 2
for _ in range(3):
    step.register_step_pre_hook(double)
    step.zero_grad()
    back()
    step.step()
""",
    )

    for factor, backward, step in zip([2, 4, 8], seen.of("backward"), seen.of("step"), strict=True):
        np.testing.assert_allclose(seen.in_order(step), factor * seen.in_order(backward), rtol=1e-6)


def test_several_optimizers_are_numbered_by_their_first_steps(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
first, second = torch.optim.SGD([model.weight], lr=0.1), torch.optim.SGD([model.bias], lr=0.1)
back(); second.step(); first.step(); second.step()
""",
    )

    assert [(r.fields["optimizer"], r.fields["count"]) for r in seen.of("step")] == [(0, 0), (1, 0), (0, 1)]
    assert [list(seen.numbers(r)) for r in seen.of("step")] == [["bias"], ["weight"], ["bias"]]


def test_a_parameter_without_a_gradient_is_absent(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        """
model = torch.nn.ModuleDict({"used": torch.nn.Linear(4, 3), "spare": torch.nn.Linear(4, 3, bias=False)})
step = torch.optim.SGD(model.parameters(), lr=0.1)
F.cross_entropy(model["used"](torch.randn(2, 4)), torch.tensor([0, 1])).backward()
step.step()
""",
    )

    assert seen.of("step")[0].fields["absent"] == ["spare.weight"]
    assert list(seen.numbers(seen.of("step")[0])) == ["used.weight", "used.bias"]


def test_a_parameter_of_a_type_of_its_own_is_not_watched_and_said_so(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        SGD
        + """
class Sharded(torch.Tensor):
    pass
own = torch.ones(3).as_subclass(Sharded).requires_grad_()
step.add_param_group({"params": [own]})
back()
own.sum().backward()
step.step()
""",
    )

    assert seen.of("step")[0].fields["unwatched"] == ["Sharded"]


# ---- clipping


@pytest.mark.parametrize(
    "call",
    [
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)",
        "torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=0.01)",
        "torch.nn.utils.clip_grad.clip_grad_norm_(model.parameters(), 0.01)",
    ],
    ids=["positional", "keyword", "module"],
)
def test_a_clip_by_norm_is_written_before_its_step(call, job_server, tmp_path):
    seen = watch(job_server, tmp_path, SGD + f"back()\n{call}\nstep.step()")

    kinds = [record.kind for record in seen.records]
    assert kinds.index("backward") < kinds.index("clip") < kinds.index("step")
    (clip,) = seen.of("clip")
    size = float(np.linalg.norm(seen.of("backward")[0].payload))
    assert (clip.fields["norm"], clip.fields["limit"]) == (pytest.approx(size, rel=1e-5), 0.01)
    np.testing.assert_allclose(
        seen.in_order(seen.of("step")[0]), seen.in_order(seen.of("backward")[0]) * 0.01 / (size + 1e-6), rtol=1e-4
    )


def test_a_clip_of_some_parameters_says_of_which(job_server, tmp_path):
    clips = "".join(f"torch.nn.utils.clip_grad_norm_({of}, 0.01)\n" for of in ("model.bias", "model.parameters()"))
    part, whole = watch(job_server, tmp_path, SGD + "back()\n" + clips + "step.step()").of("clip")

    assert ("parameters" in whole.fields, len(part.fields["parameters"])) == (False, 1)


def test_a_step_without_a_clip_has_none(job_server, tmp_path):
    assert watch(job_server, tmp_path, SGD + "back(); step.step()").of("clip") == []


def test_a_clip_by_value_keeps_the_gradient_before_it(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        SGD + "back(); torch.nn.utils.clip_grad_value_(model.parameters(), 1e-3); step.step()",
    )

    (before,) = seen.of("value-clip")
    np.testing.assert_array_equal(seen.in_order(before), seen.in_order(seen.of("backward")[0]))
    assert np.abs(seen.in_order(seen.of("step")[0])).max() <= np.float32(1e-3)


def test_a_generator_of_parameters_is_still_clipped(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        SGD
        + """
back()
norm = torch.nn.utils.clip_grad_norm_((p for p in model.parameters()), 0.01)
assert norm > 0.01 and abs(torch.cat([p.grad.flatten() for p in model.parameters()]).norm() - 0.01) < 1e-4
step.step()
""",
    )

    assert len(seen.of("clip")) == 1


def test_a_fused_optimizer_under_a_scaler_is_seen_unscaled(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
step = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
scaler.scale(F.cross_entropy(model(x), y)).backward()
scaler.step(step)
scaler.update()
""",
    )

    np.testing.assert_allclose(
        seen.in_order(seen.of("step")[0]) * 1024, seen.in_order(seen.of("backward")[0]), rtol=1e-5, atol=1e-6
    )


def test_a_clip_by_a_norm_that_was_computed_before_is_written(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        SGD
        + """
back()
norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
torch.nn.utils.clip_grads_with_norm_(model.parameters(), 0.01, norm)
step.step()
""",
    )

    (clip,) = seen.of("clip")
    assert (clip.fields["limit"], clip.fields["norm"] > 0.01) == (0.01, True)


def test_a_class_of_parameters_that_leaves_torch_its_operations_is_watched_as_any(job_server, tmp_path):
    own = """
class Mine(torch.nn.Parameter):
    pass
class Theirs(torch.Tensor):
    pass
weights = [Mine(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(4, 3).as_subclass(Theirs))]
weights.append(torch.nn.Parameter(torch.randn(4, 3, dtype=torch.cfloat)))
step = torch.optim.SGD(weights, lr=0.1)
sum(weight.abs().sum() for weight in weights).backward()
step.step()
"""
    seen = watch(job_server, tmp_path, own)

    (only,) = seen.of("step")
    assert (len(only.fields["parameters"]), only.fields["unwatched"]) == (1, ["Theirs", "complex64"])
    assert seen.errors == []
