"""The traces of a JAX job: sketches, and which of the optimizer's calls were steps."""

from __future__ import annotations

import numpy as np
import pytest

from failuremap.audit import trace

pytestmark = pytest.mark.jax


@pytest.fixture
def recorder(tmp_path):
    """A recorder of two devices."""
    from failuremap.audit.capture.jax_recorder import JaxRecorder

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
            recorder.contribution(("w",), 1, 0, leaves, np.float32(2), np.float32(0.5))
        else:
            recorder.step(("w",), 1, 0, leaves, leaves, np.int32(int(call)))


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


@pytest.mark.parametrize("size", [5, 128, 129, 1000, 4096])
def test_a_sketch_is_linear_and_begins_with_elements(size):
    from failuremap.audit.capture.jax_recorder import sketch

    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(2, size)).astype(np.float32)

    assert sketch(2 * x - y) == pytest.approx(2 * sketch(x) - sketch(y), abs=1e-4)
    assert set(sketch(x)[: min(size, 64)].tolist()) <= set(x.tolist())
    assert len(sketch(x)) == (min(size, 128))


def test_a_call_that_cannot_be_written_is_told_and_raises_nothing(recorder, tmp_path):
    recorder.contribution(("w",), 1, 0, [None], np.float32(2), np.float32(0.5))
    recorder.finish()

    (error,) = recorder.errors
    assert error.startswith("contribution: ")


def test_the_optimizer_itself_is_wrapped_not_multisteps(tmp_path, monkeypatch):
    import optax

    from failuremap.audit.jax import watched
    from failuremap.errors import InvalidArgument

    monkeypatch.setenv("FAILUREMAP_TRACE_DIR", str(tmp_path))

    with pytest.raises(InvalidArgument, match=r"optimizer=MultiSteps: .*optax\.MultiSteps\(watched\(optimizer\)"):
        watched(optax.MultiSteps(optax.sgd(0.1), 2))
