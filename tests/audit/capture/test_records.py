"""The end of a trace: the weights as they are then, whatever the job has let go of."""

from __future__ import annotations

import pytest

from audit.capture.test_recorder import MODEL
from audit.capture.watched import watch

pytestmark = pytest.mark.torch

COLLECTED = """
import gc
from torch.utils._python_dispatch import TorchDispatchMode
class Collecting(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        gc.collect()
        return function(*args, **(kwargs or {}))
gc.disable()
back(); step.step(); step.zero_grad()
model.itself = [model]
del model, step, back
"""


def test_a_model_that_is_collected_while_the_end_is_written_is_in_it(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + COLLECTED + "with Collecting(): capture.finish()")

    assert seen.errors == []
    assert sorted(seen.names[id] for id in seen.of("end")[0].fields["parameters"]) == ["bias", "weight"]


def test_a_model_that_is_gone_before_the_end_leaves_an_end_without_weights(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + COLLECTED + "gc.collect()")

    assert (seen.errors, seen.of("end")[0].fields["parameters"]) == ([], [])


def test_weights_that_cannot_be_read_at_the_end_are_an_error_in_it(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "back(); step.step(); model.weight.data = torch.zeros(2, 2)")

    (error,) = seen.errors
    assert error.startswith("finish: ")
