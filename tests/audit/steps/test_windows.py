"""From traces to steps: which contributions stand before a step, how ranks line up, and what is set aside."""

from __future__ import annotations

import numpy as np
import pytest

from audit.small_traces import ZERO, numbers, opened, passed, ranks_of, stepped, steps_of
from audit.traces import HandJob, backward, end, header, loss, of_kind, parameter, step, write_records
from failuremap.audit import diagnose
from failuremap.audit.steps.windows import Assembler


def test_a_step_holds_the_backwards_since_the_last_one(tmp_path):
    records = [*opened(), passed(0), passed(1, kept=[0, 1]), stepped(), passed(2), stepped(1)]

    first, second = steps_of(tmp_path, records)

    assert ([b.id for b in first.backwards], [b.id for b in second.backwards]) == ([0, 1], [2])
    assert (first.number, first.keys, second.keys) == (1, [(0, 0), (0, 1)], [(0, 0)])
    assert first.contributions_KL.shape == (2, 7)


def test_the_numbers_of_all_parameters_lie_in_one_order(tmp_path):
    records = [
        *opened(),
        (backward(0, [1, 0], [loss(5)]), numbers(5, 6, 7, 1, 2, 3, 4)),
        (step(0, [0, 1]), numbers(1, 2, 3, 4, 5, 6, 7, *ZERO)),
    ]

    (only,) = steps_of(tmp_path, records)

    np.testing.assert_array_equal(only.contributions_KL, [[1, 2, 3, 4, 5, 6, 7]])
    np.testing.assert_array_equal(only.updates_RL, [[1, 2, 3, 4, 5, 6, 7]])
    assert ([p.name for p in only.parameters], only.starts.tolist()) == (["a", "b"], [0, 4, 7])


def test_a_parameter_without_a_gradient_in_a_backward_is_zero_there(tmp_path):
    records = [*opened(), passed(0, ids=[1]), passed(1, kept=[1]), stepped()]

    (only,) = steps_of(tmp_path, records)

    np.testing.assert_array_equal(only.contributions_KL, [[0] * 4 + [1] * 3, [1] * 7])


def test_ranks_are_joined_by_the_names_of_parameters_and_not_by_their_numbers(tmp_path):
    other = opened(1, 2, {"b": (3,), "a": (4,)})
    crossed = (backward(0, [0, 1], [loss(5)]), numbers(5, 6, 7, 1, 2, 3, 4))
    first = [*opened(0, 2), (backward(0, [0, 1], [loss(5)]), numbers(1, 2, 3, 4, 5, 6, 7)), stepped()]
    second = [*other, crossed, (step(0, [1, 0]), np.concatenate([numbers(*[1] * 7), numbers(*[0.5] * 7)]))]

    (only,) = steps_of(tmp_path, first, second)

    np.testing.assert_array_equal(only.contributions_KL[0], only.contributions_KL[1])
    assert (only.keys, only.weights_equal) == ([(0, 0), (1, 0)], True)


def test_a_parameter_of_another_shape_is_no_part_of_another_ranks_vector(tmp_path):
    first = [*opened(0, 2, {"a": (4,)}), passed(0, ids=[0]), stepped(ids=[0])]
    second = [*opened(1, 2, {"a": (3,)}), (backward(0, [0], [loss(5)]), numbers(1, 1, 1)), (step(0, [0]), ZERO[:6])]

    (only,) = steps_of(tmp_path, first, second)

    np.testing.assert_array_equal(only.contributions_KL, [[1, 1, 1, 1], [0, 0, 0, 0]])
    np.testing.assert_array_equal(only.present_RP, [[True], [False]])


def test_uneven_numbers_of_steps_leave_the_missing_ranks_named(tmp_path):
    first = [*opened(0, 2), passed(0), stepped(), passed(1), stepped(1)]
    second = [*opened(1, 2), passed(0), stepped()]

    steps = steps_of(tmp_path, first, second)

    assert [(s.ranks, s.missing_ranks) for s in steps] == [([0, 1], []), ([0], [1])]


def test_a_rank_that_has_no_trace_is_missing_at_every_step(tmp_path):
    (rank,) = ranks_of(tmp_path, [*opened(0, 2), passed(0), stepped()])

    assert [s.missing_ranks for s in Assembler([rank], 2).steps()] == [[1]]


def test_no_step_is_no_step(tmp_path):
    assert steps_of(tmp_path, [*opened(), passed(0)]) == []


def test_one_backward_in_two_records_is_one_contribution(tmp_path):
    """An optimizer that steps inside backward makes capture write what it has so far."""
    records = [*opened(), passed(0, ids=[0]), passed(0, ids=[1]), stepped()]

    (only,) = steps_of(tmp_path, records)

    np.testing.assert_array_equal(only.contributions_KL, [[1] * 7])
    assert len(only.backwards[0].losses) == 2


def test_a_parameter_twice_in_a_backward_adds_up(tmp_path):
    twice = (backward(0, [0, 0], [loss(5)]), numbers(1, 2, 3, 4, 10, 20, 30, 40))

    (only,) = steps_of(tmp_path, [*opened(names={"a": (4,)}), twice, stepped(ids=[0])])

    np.testing.assert_array_equal(only.contributions_KL, [[11, 22, 33, 44]])


# ---- gradients that were thrown away


def test_a_discarded_batch_is_still_owed_its_part(tmp_path):
    records = [*opened(), passed(0), passed(1), stepped(), passed(2), passed(3), stepped(1)]

    assert [(s.keys, s.set_aside, s.doubts) for s in steps_of(tmp_path, records)] == [([(0, 0), (0, 1)], {}, [])] * 2


def test_a_window_that_was_left_out_is_set_aside(tmp_path):
    records = [*opened(), passed(0), stepped(), passed(1), passed(2), stepped(1), passed(3), stepped(2)]

    middle = steps_of(tmp_path, records)[1]

    assert [b.id for b in middle.backwards] == [2]
    assert middle.set_aside == {(0, 1): "a whole window whose gradients were cleared, without a step on them"}


def test_a_batch_that_went_through_again_is_set_aside(tmp_path):
    again = backward(1, [0, 1], [loss(5, fingerprint=100.0)])

    (only,) = steps_of(tmp_path, [*opened(), passed(0), (again, numbers(*[1] * 7)), stepped()])

    assert only.set_aside == {(0, 0): "the same batch went through again before the step"}
    assert [b.id for b in only.backwards] == [1]


def test_a_gradient_that_was_not_finite_and_discarded_is_set_aside(tmp_path):
    (only,) = steps_of(tmp_path, [*opened(), passed(0, fill=np.inf), passed(1), stepped()])

    assert only.set_aside == {(0, 0): "its gradient was not finite and was discarded"}


def test_a_gradient_that_went_into_another_optimizers_step_is_set_aside(tmp_path):
    records = [*opened(), passed(0), stepped(ids=[0]), passed(1, ids=[1]), stepped(ids=[1], optimizer=1)]

    first, second = steps_of(tmp_path, records)

    assert ([b.id for b in first.backwards], [b.id for b in second.backwards]) == ([0], [1])
    assert second.set_aside == {(0, 0): "its gradient went into another step"}


# ---- the script's own hooks, clips, notes


def test_gradients_that_own_hooks_altered_stand_beside_the_others(tmp_path):
    fields = {**backward(0, [0, 1], [loss(5)]), "altered": [1]}
    altered = (fields, numbers(1, 1, 1, 1, 2, 2, 2, 8, 8, 8))

    (only,) = steps_of(tmp_path, [*opened(), altered, stepped()])

    np.testing.assert_array_equal(only.contributions_KL, [[1, 1, 1, 1, 2, 2, 2]])
    np.testing.assert_array_equal(only.altered_KL, [[1, 1, 1, 1, 8, 8, 8]])


def test_without_own_hooks_nothing_is_altered(tmp_path):
    (only,) = steps_of(tmp_path, [*opened(), passed(0), stepped()])

    assert only.altered_KL is None


def test_what_was_taken_before_a_clip_by_value_stands_for_the_update(tmp_path):
    before = ({"kind": "value-clip", "parameters": [0], "limit": 1.0}, numbers(9, 9, 9, 9))

    (only,) = steps_of(tmp_path, [*opened(), passed(0), before, stepped()])

    np.testing.assert_array_equal(only.updates_RL, [[9, 9, 9, 9, 1, 1, 1]])


# ---- weights before a step


def pair(tmp_path, second_weights, count: int = 0):
    """One step of two ranks, whose weights before it are 0.5 and as given."""
    ranks = [
        [*opened(rank, 2), passed(0), stepped(count, weights=weights)]
        for rank, weights in enumerate([0.5, second_weights])
    ]
    (only,) = steps_of(tmp_path, *ranks)
    return only


def test_equal_weights_are_equal(tmp_path):
    assert (pair(tmp_path, 0.5).weights_equal, pair(tmp_path, 0.5).weights_differ_in) == (True, [])


@pytest.mark.parametrize("count", [0, 1])
def test_other_weights_are_not_equal_and_named(count, tmp_path):
    assert pair(tmp_path, 0.6, count).weights_differ_in == ["a", "b"]


def test_the_smallest_difference_of_elements_is_seen(tmp_path):
    assert pair(tmp_path, float(np.nextafter(np.float32(0.5), np.float32(1))), 1).weights_equal is False


@pytest.mark.parametrize(("place", "equal"), [(100, True), (3, False)])
def test_rounding_of_sums_is_no_difference_and_that_of_elements_is(place, equal, tmp_path):
    ranks = []
    for rank in range(2):
        weights = np.full(128, 0.5, dtype=np.float32)
        weights[place] = np.nextafter(np.float32(0.5), np.float32(rank))
        gradient = (backward(0, [0], [loss(5)]), np.ones(128, dtype=np.float32))
        taken = (step(0, [0]), np.concatenate([np.ones(128, dtype=np.float32), weights]))
        ranks.append([*opened(rank, 2, {"a": (64, 64)}), gradient, taken])

    (only,) = steps_of(tmp_path, *ranks)

    assert only.weights_equal is equal


def test_one_rank_has_nobody_to_be_equal_to(tmp_path):
    (only,) = steps_of(tmp_path, [*opened(), passed(0), stepped()])

    assert only.weights_equal is None


# ---- optimizers that not every rank steps


def test_a_rank_that_skips_one_of_two_optimizers_is_a_verdict_and_no_crash(tmp_path):
    size, ones = 128, np.ones
    for rank in range(2):
        second = (step(0, [1], optimizer=1), ones(2 * size, np.float32))
        skipping = (step(1, [0]), ones(size + 64, np.float32))
        write_records(
            tmp_path,
            rank,
            [
                (header(rank, 2), None),
                (parameter(0, "a", (64, 64)), None),
                (parameter(1, "b", (64, 64)), None),
                (backward(0, [0, 1], [loss(3)]), ones(2 * size, np.float32)),
                (step(0, [0]), ones(2 * size, np.float32)),
                (backward(1, [0, 1], [loss(3)]), ones(2 * size, np.float32)),
                second if rank == 0 else skipping,
                (end([], 2), None),
            ],
        )

    assert diagnose(tmp_path).outcome != "right"


def test_an_optimizer_that_joins_later_is_a_verdict_and_no_crash(tmp_path):
    """At the second step one optimizer writes whole sketches of its weights, the other sampled elements."""
    size, ones = 128, np.ones
    for rank in range(2):
        write_records(
            tmp_path,
            rank,
            [
                (header(rank, 2), None),
                (parameter(0, "a", (64, 64)), None),
                (parameter(1, "b", (64, 64)), None),
                (backward(0, [0], [loss(3)]), ones(size, np.float32)),
                (step(0, [0]), ones(2 * size, np.float32)),
                (backward(1, [0, 1], [loss(3)], kept=[]), ones(2 * size, np.float32)),
                (step(0, [1], optimizer=1), ones(2 * size, np.float32)),
                (step(1, [0]), ones(size + 64, np.float32)),
                (end([], 2), None),
            ],
        )

    assert diagnose(tmp_path).findings is not None


def test_hand_written_jobs_have_the_steps_they_say(tmp_path):
    records = HandJob([[300, 300], [300, 300]], steps=3).records()

    steps = steps_of(tmp_path, *records)

    assert len(of_kind(records[0], "step")) == len(steps) == 3
    assert [s.keys for s in steps] == [[(0, 0), (0, 1), (1, 0), (1, 1)]] * 3
