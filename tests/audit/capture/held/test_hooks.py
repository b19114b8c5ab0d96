"""The hook on a parameter: its quick way and its full way write the same, and neither raises anything into the job."""

from __future__ import annotations

import pytest

from audit.capture.sharded_job import watch_ranks
from audit.capture.watched import watch

pytestmark = pytest.mark.torch

MODEL = """
from failuremap.audit import capture
from failuremap.audit.capture import watching
model = torch.nn.Linear(40, 30)
step = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(5, 40), torch.randint(30, (5,))
def back():
    F.cross_entropy(model(x), y).backward()
def train(steps):
    for _ in range(steps):
        step.zero_grad(); back(); back(); step.step()
quick, taken = watching.Watched.quick, []
def counting(self, gradient):
    made = quick(self, gradient)
    taken.append(made is not None)
    return made
def never(self, gradient):
    return None
watching.Watched.quick = counting
"""


@pytest.fixture
def kernel(require_module):
    require_module(
        "failuremap.audit.capture.sketches._sketch", "with a C compiler: touch pyproject.toml, then make venv"
    )


def fields(seen):
    """All that passes and steps say, but for their numbers."""
    return [record.fields for kind in ("backward", "step") for record in seen.of(kind)]


def test_the_quick_way_is_taken_from_the_second_pass_on(kernel, job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "train(2)\nassert taken == [False] * 2 + [True] * 6, taken")

    assert seen.errors == []


def test_both_ways_write_the_same(job_server, tmp_path):
    seen = []
    for way in ("counting", "never"):
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        seen.append(watch(job_server, folder, MODEL + f"watching.Watched.quick = {way}\ntrain(3)"))
    quick, full = seen

    assert fields(quick) == fields(full)
    for one, other in zip(quick.records, full.records, strict=True):
        assert one.payload == pytest.approx(other.payload, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("where", ["Watched.quick", "Watched.holds_gradient"])
def test_what_the_hook_raises_is_noted_and_the_job_goes_on(where, job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + f"""
train(1)
def broken(*_, **__):
    raise ZeroDivisionError("planted")
watching.{where} = broken
train(2)
assert model.weight.grad is not None
""",
    )

    assert set(seen.errors) == {"on_gradient: ZeroDivisionError: planted"}


def test_a_gradient_of_another_type_is_read_the_full_way(kernel, job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + "train(1); taken.clear()\nmodel.double(); x = x.double()\nback(); assert taken == [False, False], taken",
    )

    assert seen.errors == []


def test_a_hook_that_is_off_looks_at_nothing(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL + "train(1); taken.clear()\ncapture.current.active = False\ntrain(1)\nassert not taken",
    )

    assert len(seen.of("step")) == 1


def test_a_window_that_is_read_in_part_reads_what_is_chosen_alone(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
watched = capture.current.watched
train(1)
capture.current.sampling.in_part, watched[0].chosen, watched[1].chosen = True, True, False
taken.clear(); back()
assert len(taken) == 1
assert capture.current.backward is None
""",
    )

    assert [record.fields["parameters"] for record in seen.of("backward")][-1] == [0]


# ---- shards


def test_a_gathered_parameter_is_looked_up_once(job_server, tmp_path):
    source = """
from failuremap.audit.capture.held import sharded
looked, original = [], sharded.on_gathered
def on_gathered(recorder, managed):
    looked.append(managed)
    original(recorder, managed)
sharded.on_gathered = on_gathered
fully_shard(model)
step = sgd()
for _ in range(3):
    step.zero_grad(); back(); step.step()
assert len(looked) == 5, looked
"""
    assert [seen.errors for seen in watch_ranks(job_server, tmp_path, source)] == [[], []]


def test_a_shard_that_is_put_in_later_is_found(job_server, tmp_path):
    source = """
fully_shard(model)
step = sgd()
back(); step.step(); step.zero_grad()
model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
step = sgd()
back(); step.step()
"""
    for one in watch_ranks(job_server, tmp_path, source):
        assert one.errors == []
        assert [len(record.fields["parameters"]) for record in one.of("backward")] == [5, 5]


def test_collectives_of_fully_shard_are_none_of_the_scripts(job_server, tmp_path):
    (seen, _) = watch_ranks(job_server, tmp_path, "fully_shard(model)\nstep = sgd()\nback(); step.step()")

    calls = [call for record in seen.of("collectives") for call in record.fields["calls"]]
    assert {call["function"] for call in calls} >= {"all_gather_single", "reduce_scatter_single"}
    assert {(call["own"], call["site"]) for call in calls} == {(False, "")}


NO_GRADIENT = """
class Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        return x * 1
    @staticmethod
    def backward(ctx, gradient):
        return gradient, None
unused = torch.nn.Parameter(torch.ones(3))
step.add_param_group({"params": [unused]})
F.cross_entropy(Keep.apply(model(x), unused), y).backward(); step.step()
assert unused.grad is None
"""


def test_a_parameter_that_is_handed_no_gradient_has_none(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + NO_GRADIENT)

    assert seen.errors == []
    assert [len(record.fields["parameters"]) for record in seen.of("backward")] == [2]
