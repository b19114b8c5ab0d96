"""One step, fitted: which ranks step alike; what is of the step before, of the own rank, of own hooks, of nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.traces import HandJob, Window, as_type
from failuremap.audit import trace
from failuremap.audit.fitting.observe import nonfinite, observe
from failuremap.audit.steps.story import read_rank
from failuremap.audit.steps.windows import Assembler

EVEN = [[300, 300], [300, 300]]


def steps_of(job: HandJob, folder):
    ranks = [read_rank(read) for read in trace.read_folder(job.write(folder))]
    return list(Assembler(ranks, len(ranks)).steps())


def last(job: HandJob, folder):
    """The last step of a job, fitted with the one before it."""
    steps = steps_of(job, folder)
    return observe(steps[-1], steps[-2])


def names_of(fitted, mask):
    return [fitted.step.parameters[place].name for place in np.flatnonzero(mask)]


def own(window: Window):
    return window.gradients_RML.mean(axis=1)


def test_ranks_that_step_alike_are_one_observation(tmp_path):
    fitted = last(HandJob(EVEN), tmp_path)

    (only,) = fitted.observations
    assert only.ranks == [0, 1]
    np.testing.assert_allclose(only.clusters[0].solution.coefficients, 0.25, rtol=1e-5)
    assert only.clusters[0].parameters.all()
    assert not (only.unexplained | only.untouched | only.hooked).any()
    assert (only.carried, only.own) == (None, {})


def test_ranks_that_step_on_their_own_are_observations_of_their_own(tmp_path):
    fitted = last(HandJob(EVEN, own), tmp_path)

    coefficients = [o.clusters[0].solution.coefficients for o in fitted.observations]
    np.testing.assert_allclose(coefficients, [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]], atol=1e-5)


def test_the_step_before_is_found_in_an_update(tmp_path):
    def leaks(window):
        return window.combined(0.25) + (window.before.updates_RL if window.before else 0)

    carried = last(HandJob(EVEN, leaks), tmp_path).observations[0].carried

    assert (carried.current, carried.parameters.all()) == (True, True)
    assert abs(carried.factor - 1) < 1e-4
    np.testing.assert_allclose(carried.coefficients_K, 0.25, rtol=1e-4)


def test_the_contributions_of_the_step_before_are_found_in_place_of_these(tmp_path):
    def late(window):
        before = window.before or window
        return before.combined([[0.3, 0.2], [0.1, 0.4]])

    carried = last(HandJob(EVEN, late), tmp_path).observations[0].carried

    assert not carried.current


def test_a_right_step_carries_nothing(tmp_path):
    steps = steps_of(HandJob(EVEN), tmp_path)

    assert observe(steps[0], None).observations[0].carried is None
    assert observe(steps[1], steps[0]).observations[0].carried is None


def test_an_update_that_is_no_combination_is_unexplained(tmp_path):
    def other(window):
        one = np.random.default_rng(1000 + window.number).normal(size=window.gradients_RML.shape[2])
        return np.stack([one, one])

    (only,) = last(HandJob(EVEN, other), tmp_path).observations

    assert (only.clusters, only.unexplained.all()) == ([], True)


def test_a_small_parameter_of_the_own_rank_alone_is_found_with_its_factor(tmp_path):
    def local(window):
        result, columns = window.combined(0.25), window.columns("layer.bias")
        result[:, columns] = own(window)[:, columns]
        return result

    fitted = last(HandJob(EVEN, local), tmp_path)

    for observation in fitted.observations:
        assert list(observation.own) == ["layer.bias"]
        assert abs(observation.own["layer.bias"] - 0.5) < 1e-4
        assert not observation.unexplained.any()


def test_a_parameter_that_no_backward_touched_is_untouched(tmp_path):
    def without_head(gradients, _):
        gradients[:, :, -80:] = 0
        return gradients

    def update(window):
        result = window.combined(0.25)
        result[:, -80:] = np.random.default_rng(1000 + window.number).normal(size=80)
        return result

    fitted = last(HandJob(EVEN, update, gradients=without_head), tmp_path)

    assert names_of(fitted, fitted.observations[0].untouched) == ["head.weight"]
    assert not fitted.observations[0].unexplained.any()


def test_equal_contributions_are_one_class_and_share_its_coefficient(tmp_path):
    fitted = last(HandJob(EVEN, gradients=lambda gradients, _: np.repeat(gradients[:1], 2, axis=0)), tmp_path)

    assert (fitted.classes, fitted.same) == ([[0, 2], [1, 3]], [[0, 2], [1, 3]])
    np.testing.assert_allclose(fitted.observations[0].clusters[0].solution.coefficients, 0.25, rtol=1e-5)


def test_contributions_that_are_zero_are_no_class_of_equal_ones(tmp_path):
    fitted = last(HandJob(EVEN, gradients=lambda gradients, _: gradients * [[[1]], [[0]]]), tmp_path)

    assert fitted.same == []
    assert fitted.nonzero_K.tolist() == [True, True, False, False]


def test_different_contributions_are_classes_of_their_own(tmp_path):
    assert last(HandJob(EVEN), tmp_path).classes == [[0], [1], [2], [3]]


def test_parameters_that_own_hooks_change_follow_the_rule_behind_these_hooks(tmp_path):
    """A hook clips a gradient on each rank: no coefficients on the captured gradients explain this update."""
    steps = steps_of(HandJob([[300], [300]]), tmp_path)
    columns = slice(*steps[-1].starts[1:3])
    altered = steps[-1].contributions_KL.copy()
    altered[:, columns] = np.clip(altered[:, columns], -0.5, 0.5)
    updates = np.repeat(as_type(altered.mean(axis=0), "float32")[None], 2, axis=0)

    seen = observe(replace(steps[-1], altered_KL=altered, updates_RL=updates), None)
    unseen = observe(replace(steps[-1], updates_RL=updates), None)

    assert names_of(seen, seen.observations[0].hooked) == ["layer.weight"]
    assert not seen.observations[0].unexplained.any()
    assert names_of(unseen, unseen.observations[0].unexplained) == ["layer.weight"]


def test_what_is_not_finite_is_named(tmp_path):
    steps = steps_of(HandJob(EVEN), tmp_path)
    spoiled = replace(
        steps[0], contributions_KL=steps[0].contributions_KL.copy(), updates_RL=steps[0].updates_RL.copy()
    )
    spoiled.contributions_KL[2, 5] = np.nan
    spoiled.updates_RL[1, 5] = np.inf

    assert nonfinite(spoiled) == ([2], [1])
    assert nonfinite(steps[0]) == ([], [])


SMALL = {"layer.weight": (8, 8), "gate": (1,), "pair": (2,)}


def local_in_small(window: Window):
    """The mean, and each rank's own gradient of the parameters of one and of two numbers."""
    updates = window.combined(1 / window.counts_RM.size)
    updates[:, 64:] = window.gradients_RML.sum(axis=1)[:, 64:]
    return updates


def test_one_number_shows_that_a_parameter_stays_on_its_rank(tmp_path):
    fitted = last(HandJob(EVEN, local_in_small, shapes=SMALL), tmp_path)

    assert [observation.own for observation in fitted.observations] == [{"gate": 1.0, "pair": 1.0}] * 2


def test_negative_control_one_number_shows_no_factor_and_nothing_in_a_small_type(tmp_path):
    halved = last(HandJob(EVEN, lambda window: local_in_small(window) / 2, shapes=SMALL), tmp_path)
    (tmp_path / "small").mkdir()
    rounded = last(HandJob(EVEN, local_in_small, shapes=SMALL, dtype="bfloat16"), tmp_path / "small")

    assert [observation.own for observation in (*halved.observations, *rounded.observations)] == [{}] * 4
