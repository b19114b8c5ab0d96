"""What got gradients and no step: parameters that were replaced, gradients that were removed, other processes' own."""

from __future__ import annotations

import numpy as np
import pytest

from audit.small_traces import opened, passed, ranks_of, stepped
from failuremap.audit import diagnose
from failuremap.audit.steps import unstepped

AGAIN = {"head": (4,), "head #2": (4,), "body": (3,)}
OLD, NEW, BODY = 0, 1, 2


def sized(fields, ids, times=1):
    """A record with as many numbers as these parameters have."""
    return fields | {"parameters": list(ids)}, np.ones(times * sum((4, 4, 3)[id] for id in ids), dtype=np.float32)


def went(number, *ids):
    """A backward pass that reached these parameters."""
    return sized(passed(number)[0], ids)


def took(count, *ids, absent=()):
    """A step on these parameters."""
    return sized(stepped(count)[0] | {"absent": list(absent)}, ids, times=2)


def ranks(tmp_path, *records):
    return ranks_of(tmp_path, [*opened(names=AGAIN), *records])


def test_a_parameter_whose_gradients_go_on_in_another_that_no_optimizer_knows_was_replaced(tmp_path):
    found = ranks(tmp_path, went(0, OLD, BODY), took(0, OLD, BODY), went(1, NEW, BODY), took(1, BODY, absent=["head"]))

    (said,) = unstepped.replaced(found)
    assert said == (
        "head was replaced during training, and no optimizer steps on the new one: add_param_group, or make the "
        "optimizer anew"
    )


@pytest.mark.parametrize(
    "records",
    [
        [went(0, OLD, BODY), took(0, OLD, BODY), went(1, NEW, BODY), took(1, NEW, BODY)],
        [went(0, OLD, NEW, BODY), took(0, OLD, BODY), went(1, NEW, BODY), took(1, BODY)],
        [went(0, NEW, BODY), took(0, BODY), went(1, NEW, BODY), took(1, BODY)],
    ],
    ids=["the optimizer was told", "two models of one kind", "never stepped on"],
)
def test_of_other_parameters_of_one_name_nothing_is_said(records, tmp_path):
    assert unstepped.replaced(ranks(tmp_path, *records)) == []


def test_a_gradient_that_is_gone_when_the_others_are_stepped_on_is_told(tmp_path):
    found = ranks(tmp_path, went(0, OLD, BODY), took(0, BODY, absent=["head"]))

    assert unstepped.removed(found) == ["the gradient of 1 parameter was removed between backward and a step: head"]


def test_a_parameter_that_backward_did_not_reach_had_no_gradient_to_remove(tmp_path):
    assert unstepped.removed(ranks(tmp_path, went(0, BODY), took(0, BODY, absent=["head"]))) == []


def test_processes_that_left_word_are_counted_by_the_ranks_that_started_them(tmp_path):
    ranks(tmp_path, went(0, BODY), took(0, BODY))
    for name in ("beside-rank00000-7.txt", "beside-rank00001-8.txt", "beside-rank00001-9.txt"):
        (tmp_path / name).touch()

    assert diagnose(tmp_path).notes[-1] == (
        "3 processes that were started by ranks 0, 1, such as workers of a data loader, trained something of their "
        "own: that was not measured"
    )
