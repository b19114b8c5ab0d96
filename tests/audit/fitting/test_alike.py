"""Which contributions are equal, and which ranks step alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from audit.traces import Floats, HandJob, Window
from failuremap.audit.fitting.alike import alike, classes_of
from failuremap.audit.steps.story import read_rank
from failuremap.audit.steps.windows import Assembler, Step
from failuremap.audit.trace import read_folder


def step_of(job: HandJob, folder: Path) -> Step:
    """The first step of a job."""
    folder.mkdir(exist_ok=True)
    ranks = [read_rank(trace) for trace in read_folder(job.write(folder))]
    return next(Assembler(ranks, len(ranks)).steps())


@given(st.lists(st.integers(0, 3), min_size=6, max_size=6), st.sampled_from(["float32", "bfloat16"]))
def test_equal_contributions_are_one_class_however_they_are_spread(tmp_path_factory, drawn, dtype):
    def copied(gradients: Floats, _: int) -> Floats:
        flat = gradients.reshape(6, -1)
        return flat[drawn].reshape(gradients.shape)

    job = HandJob(counts=((3, 5, 2), (4, 1, 6)), steps=1, gradients=copied, dtype=dtype)
    classes = classes_of(step_of(job, tmp_path_factory.mktemp("traces")))
    expected = {tuple(k for k in range(6) if drawn[k] == value) for value in set(drawn)}
    assert {tuple(members) for members in classes} == expected


def test_what_differs_by_more_than_rounding_is_not_equal(tmp_path):
    def nearly(gradients: Floats, _: int) -> Floats:
        gradients[1, 0] = gradients[0, 0] * (1 + 1e-4)
        return gradients

    step = step_of(HandJob(counts=((3,), (4,)), steps=1, gradients=nearly), tmp_path)
    assert classes_of(step) == [[0], [1]]


def test_contributions_of_zeros_are_classes_of_their_own(tmp_path):
    step = step_of(HandJob(counts=((3,), (4,)), steps=1, gradients=lambda g, _: np.zeros_like(g)), tmp_path)
    assert classes_of(step) == [[0], [1]]


def test_ranks_with_the_same_update_step_alike(tmp_path):
    def apart(window: Window) -> Floats:
        made = window.combined(1.0)
        made[2] *= 2
        return made

    step = step_of(HandJob(counts=((3,), (4,), (5,)), steps=1, update=apart), tmp_path)
    assert alike(step) == [[0, 1], [2]]
