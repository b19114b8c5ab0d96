"""The traces of a JAX job: sketches, and which of the optimizer's calls were steps."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from failuremap.audit import trace
from failuremap.audit.capture.jax.jax_recorder import Line

pytestmark = pytest.mark.jax


@pytest.fixture
def recorder(tmp_path):
    """A recorder of two devices."""
    from failuremap.audit.capture.jax.jax_recorder import JaxRecorder

    return JaxRecorder(tmp_path, "run")


def kinds(recorder, folder):
    """What the only device's trace holds, by first letters: c for a contribution, s for a step."""
    recorder.finish()
    (opened,) = [trace.read(path) for path in folder.glob("*.trace")]
    letters = {"backward": "c", "step": "s"}
    assert opened.end is not None
    assert opened.end["errors"] == []
    return "".join(letters.get(record.kind, "") for record in opened.records())


def play(recorder, calls):
    """Each digit is a call of the optimizer with this count; c is a contribution."""
    leaves = [np.ones(3, np.float32)]
    for call in calls:
        if call == "c":
            recorder.contribution(Line(("w",), 1), 0, leaves, np.float32(2), np.float32(0.5))
        else:
            recorder.step(Line(("w",), 1), 0, leaves, leaves, np.int32(int(call)))


@pytest.mark.parametrize(
    ("calls", "written"),
    [
        ("c0c1c2", "cscscs"),  # a step for each backward
        ("c0c0c1c1", "ccsccs"),  # MultiSteps: the count stands until the window is full
        ("cc0cc1", "ccsccs"),  # several backwards before the optimizer is called
        ("c0c0c1", "ccsc"),  # the last window is not full
        ("c0", "cs"),
        ("cc", "cc"),
    ],
)
def test_a_call_is_a_step_where_the_count_advances(calls, written, recorder, tmp_path):
    play(recorder, calls)

    assert kinds(recorder, tmp_path) == written


def turns(recorder, *calls):
    """Each call is `g w` (a contribution to w) or `0 w 3` (optimizer 0 steps on w with count 3)."""
    leaves = [np.ones(3, np.float32)]
    for call in calls:
        who, name, *count = call.split()
        if who == "g":
            recorder.contribution(Line((name,), 1), 0, leaves, np.float32(2), np.float32(0.5))
        else:
            recorder.step(Line((name,), 1, int(who)), 0, leaves, leaves, np.int32(int(count[0])))
    recorder.finish()


def told_in(folder):
    """What the trace holds, as `turns` says it, and the errors at its end."""
    (opened,) = [trace.read(path) for path in folder.glob("*.trace")]
    names, told = {}, []
    for record in opened.records():
        if record.kind == "parameter":
            names[record.fields["id"]] = record.fields["name"]
        elif record.kind == "backward":
            told.append(f"g {names[record.fields['parameters'][0]]}")
        elif record.kind == "step":
            name = names[record.fields["parameters"][0]]
            told.append(f"{record.fields['optimizer']} {name} {record.fields['count']}")
    return told, opened.end["errors"]


def test_two_optimizers_have_their_steps_each_in_order(recorder, tmp_path):
    calls = ["g w", "g v", "0 w 0", "1 v 0", "g w", "0 w 1", "g v", "1 v 1"]
    turns(recorder, *calls)

    assert told_in(tmp_path) == (calls, [])


def test_an_optimizer_that_is_called_no_more_holds_nothing_back(recorder, tmp_path):
    calls = ["g w", "0 w 0", *(call for count in range(400) for call in ("g v", f"1 v {count}"))]
    turns(recorder, *calls)

    assert told_in(tmp_path) == (calls, [])


def test_an_optimizer_that_takes_anothers_place_steps_on(recorder, tmp_path):
    calls = ["g w", "0 w 0", "g w", "0 w 1", "g w", "1 w 0", "g w", "1 w 1"]
    turns(recorder, *calls)

    assert told_in(tmp_path) == (calls, [])


def test_two_optimizers_in_turn_on_leaves_of_one_name_are_asked_for_names(recorder, tmp_path):
    from failuremap.audit.capture.jax.jax_device import TWO_OPTIMIZERS

    turns(recorder, "g w", "g w", "0 w 0", "1 w 0", "g w", "g w", "0 w 1", "1 w 1")

    told, errors = told_in(tmp_path)
    assert [call for call in told if not call.startswith("g")] == []
    assert errors == [TWO_OPTIMIZERS]


@pytest.mark.parametrize("size", [5, 128, 129, 1000, 4096])
def test_a_sketch_is_linear_and_begins_with_elements(size):
    from failuremap.audit.capture.jax.jax_device import sketch

    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(2, size)).astype(np.float32)

    assert sketch(2 * x - y) == pytest.approx(2 * sketch(x) - sketch(y), abs=1e-4)
    assert set(sketch(x)[: min(size, 64)].tolist()) <= set(x.tolist())
    assert len(sketch(x)) == (min(size, 128))


def test_a_call_that_cannot_be_written_is_told_and_raises_nothing(recorder, tmp_path):
    recorder.contribution(Line(("w",), 1), 0, [None], np.float32(2), np.float32(0.5))
    recorder.finish()

    (error,) = recorder.errors
    assert error.startswith("contribution: ")


def test_weights_that_the_optimizer_is_not_given_are_not_known(recorder, tmp_path):
    leaves = [np.ones(3, np.float32), np.ones(500, np.float32)]
    recorder.step(Line(("w", "v"), 1), 0, leaves, [], np.int32(0))
    recorder.finish()

    (path,) = tmp_path.glob("*.trace")
    (step,) = [record for record in trace.read(path).records() if record.kind == "step"]
    assert np.isnan(step.payload[3 + 128 :]).all()
    assert np.isfinite(step.payload[: 3 + 128]).all()


def test_steps_beyond_those_that_were_asked_for_are_not_written(tmp_path, monkeypatch):
    from failuremap.audit.capture.jax.jax_recorder import JaxRecorder

    monkeypatch.setenv("FAILUREMAP_STEPS", "2")
    recorder = JaxRecorder(tmp_path, "run")
    play(recorder, "c0c1c2c3")

    assert kinds(recorder, tmp_path) == "cscs"


def test_a_variable_of_flax_has_the_name_of_its_array():
    import jax
    import jax.numpy as jnp

    from failuremap.audit.capture.jax.jax_place import flattened

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Variable:
        value: jax.Array

    array = jnp.ones(2)
    assert flattened({"out": Variable(array)})[2] == flattened({"out": array})[2] == ("out",)
    assert flattened({"value": array})[2] == ("value",)
    assert flattened(array)[2] == ("parameter",)
    assert flattened({"w": array}, "critic")[2] == ("critic.w",)


def test_a_process_that_was_to_run_steps_of_its_own_and_ran_none_says_so(recorder, tmp_path):
    recorder.traced({"w": (3,)}, None)
    recorder.finish()

    (path,) = tmp_path.glob("*.trace")
    (error,) = trace.read(path).end["errors"]
    assert error == (
        "contribution: process 0 ran no step of its own, as where all processes run one step under jax.jit together; "
        "say axis=() there, in contribution() and in watched()"
    )
