"""Parameters that are not reduced as the others: those that the last micro-batch did without, and any others."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import DDP, last, the_fault
from audit.traces import HandJob
from failuremap.audit import diagnose
from failuremap.catalogue.signs import Sign

ALIKE = [[300, 300], [300, 300]]
FOUR = [[300, 300]] * 4


def slugs(verdict):
    return [candidate.slug for finding in verdict.findings for candidate in finding.candidates]


class Windows:
    """Gradients and updates of windows whose micro-batches do without some parameters."""

    def __init__(self, unused, alone, groups=((0,), (1,))):
        """Which parameters each micro-batch does without, which are added up inside the groups alone."""
        self.unused, self.alone, self.groups = unused, alone, groups
        self.job = None

    def gradients(self, drawn, _):
        names, starts = list(self.job.shapes), [0, 128, 192, 200, 280]
        for micro_batch, left_out in self.unused.items():
            for name in left_out:
                place = names.index(name)
                drawn[:, micro_batch, starts[place] : starts[place + 1]] = 0
        return drawn

    def update(self, window):
        result = window.combined(1 / window.counts_RM.size)
        for name in self.alone:
            columns = window.columns(name)
            for group in map(list, self.groups):
                own = window.gradients_RML[group][:, :, columns].sum(axis=(0, 1)) / window.counts_RM.size
                result[group, columns] = own
        return result


def job(unused, alone, counts=ALIKE, groups=((0,), (1,)), **more):
    windows = Windows(unused, alone, groups)
    windows.job = HandJob(counts, windows.update, gradients=windows.gradients, **more)
    return windows.job


@pytest.mark.parametrize("name", ["layer.weight", "layer.bias"])
def test_parameters_that_the_last_micro_batch_did_without_and_that_stay_local_are_named(name, tmp_path):
    verdict = diagnose(job({1: [name]}, [name], path=DDP).write(tmp_path))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["unused-on-last-microbatch"])
    assert verdict.sentence == (
        "1 of 4 parameters are not added up over all ranks, those that the window's last micro-batch does not use: "
        f"{name}."
    )


def test_parameters_that_stay_in_a_group_of_ranks_are_named_too(tmp_path):
    made = job({1: ["layer.weight"]}, ["layer.weight"], FOUR, ((0, 1), (2, 3)))

    assert slugs(diagnose(made.write(tmp_path))) == ["unused-on-last-microbatch"]


def test_what_is_known_of_them_is_a_sign(tmp_path):
    fault = the_fault(last(job({1: ["layer.weight"]}, ["layer.weight"]), tmp_path))

    assert {Sign.UNUSED_IN_LAST_MICRO_BATCH, Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS} <= fault.signs
    assert fault.parameters == ["layer.weight"]


@pytest.mark.parametrize(
    ("unused", "alone"),
    [
        ({0: ["layer.weight"]}, ["layer.weight"]),
        ({1: ["layer.weight", "head.weight"]}, ["layer.weight"]),
        ({1: ["layer.weight"]}, ["layer.weight", "head.weight"]),
        ({}, ["layer.weight"]),
    ],
    ids=["unused in the first", "another unused one is added up", "a used one stays local, too", "used throughout"],
)
def test_negative_control_where_the_two_do_not_agree_it_is_a_parameter_without_a_hook(unused, alone, tmp_path):
    assert slugs(diagnose(job(unused, alone).write(tmp_path))) == ["param-without-hook"]


def test_negative_control_parameters_that_the_last_micro_batch_did_without_may_be_right(tmp_path):
    assert diagnose(job({1: ["layer.weight"]}, []).write(tmp_path)).outcome == "right"


def test_negative_control_another_rule_that_holds_all_ranks_is_not_named(tmp_path):
    def update(window):
        result, columns = window.combined(1 / 4), window.columns("layer.weight")
        result[:, columns] = window.combined([[0.5, 0], [0.1, 0]])[:, columns]
        return result

    def without(drawn, _):
        drawn[:, 1, 128:192] = 0
        return drawn

    verdict = diagnose(HandJob(ALIKE, update, gradients=without).write(tmp_path))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", [])
    assert verdict.sentence == "1 of 4 parameters follow another rule than the rest: layer.weight."
    assert np.isfinite(verdict.evidence.residual)
