"""What one unit weighs in its own loss: counts and scales of the loss functions that were seen, term by term."""

from __future__ import annotations

import math

import pytest

from audit.traces import loss
from failuremap.audit.steps.story import Backward
from failuremap.audit.weighing.weigh import hidden_losses, read_losses


def passed(*losses, counts=(), unseen=(), via="backward") -> Backward:
    """A backward pass that met these losses."""
    return Backward(0, via, list(unseen), {}, list(losses), list(counts))


def only_term(*backwards, unit=None):
    """The one term of the one way to read these losses."""
    readings = read_losses(backwards, unit)
    ((term,),) = readings.alternatives
    return term


def test_a_mean_gives_each_unit_the_scale_over_the_count():
    term = only_term(passed(loss(4, 1.0)), passed(loss(8, 0.5)))

    assert (term.counts_K.tolist(), term.totals_K.tolist()) == ([4, 8], [1, 0.5])
    assert term.unit_weights_K.tolist() == [1 / 4, 0.5 / 8]
    assert (term.has_K.tolist(), term.total_known, term.spread) == ([True, True], True, 1.0)


def test_chunks_without_a_unit_are_no_term_though_their_targets_are_the_same():
    chunk = {"reduction": "sum", "fingerprint": -600.0}

    term = only_term(
        passed(loss(3, 1.0, reduction="sum", fingerprint=7.0), loss(0, 1.0, **chunk), loss(0, 1.0, **chunk))
    )

    assert term.counts_K.tolist() == [3]


def test_one_part_of_the_targets_after_another_is_one_term_though_two_parts_are_the_same():
    parts = [loss(4, 0.25, fingerprint=mark) for mark in (7.0, 8.0, 7.0, 9.0)]

    term = only_term(passed(*parts))

    assert (term.counts_K.tolist(), term.totals_K.tolist(), term.spread) == ([16], [1], 1.0)


def test_another_loss_over_the_same_targets_is_a_term_of_its_own():
    (terms,) = read_losses([passed(loss(3, 1.0, fingerprint=7.0), loss(3, 0.5, fingerprint=7.0))], None).alternatives

    assert [term.totals_K.tolist() for term in terms] == [[1.0], [0.5]]
    assert [term.name for term in terms] == [
        "cross_entropy(mean) at train.py:41",
        "cross_entropy(mean) at train.py:41 (call 2)",
    ]


def test_a_sum_gives_each_unit_the_scale():
    term = only_term(passed(loss(4, 0.1, reduction="sum")))

    assert term.totals_K.tolist() == pytest.approx([0.4])
    assert term.unit_weights_K.tolist() == pytest.approx([0.1])


def test_a_loss_without_reduction_counts_the_units_that_a_gradient_reached():
    term = only_term(passed(loss(10, 3.0, reduction="none", nonzero=6, smallest=0.5, largest=0.5)))

    assert (term.counts_K.tolist(), term.totals_K.tolist(), term.spread) == ([6], [3], 1.0)


def test_units_that_weigh_differently_inside_a_loss_are_a_spread():
    term = only_term(passed(loss(10, 3.0, reduction="none", nonzero=6, smallest=0.25, largest=0.5)))

    assert term.spread == 2.0


def test_units_with_numbers_of_the_scripts_own_are_told_and_wrong_only_where_their_weights_go_by_counts():
    def told(*totals):
        more = {"function": "loss_per_unit", "reduction": "none", "nonzero": 4, "smallest": 0.25, "largest": 0.25}
        return read_losses([passed(loss(4, total, **more)) for total in totals], None).alternatives

    ((term,),) = told(1.0, 1.0)

    assert (term.apart, told(1.0, 2.0)) == (True, [])


def test_tokens_cannot_be_counted_where_the_script_reduces_each_row_first():
    backwards = [passed(loss(2, 1.0, function="loss_per_unit", unit="sequence", rows=2, site="train.py:7"))]

    assert read_losses(backwards, "sequence").uncounted == read_losses(backwards, None).uncounted == ""
    assert read_losses(backwards, "token").uncounted == (
        "tokens cannot be counted at the backward of train.py:7: the script reduces each sequence to one number first. "
        "Audit with --unit sequence, or mark failuremap.unit_losses(losses)"
    )


def test_the_note_says_how_weights_were_found_that_no_function_tells():
    backwards = [passed(loss(2, 1.0, function="loss_per_unit", unit="sequence", site="train.py:7"))]

    (note,) = hidden_losses(backwards)
    assert note == (
        "weights read from the gradient at the losses of the single sequences (backward at train.py:7), apart from the "
        "script's own number for each sequence, such as an advantage: of these nothing is concluded"
    )


@pytest.mark.parametrize(
    ("function", "note"),
    [
        ("at_logits", "the logits (Fast, backward at train.py:7): in every row it is w (softmax - onehot)"),
        (
            "at_hidden",
            (
                "the hidden states (Fast, backward at train.py:7): in the rows that were computed again it is w times "
                "that of a cross entropy behind the head"
            ),
        ),
    ],
)
def test_the_note_says_at_which_gradient_a_hidden_loss_was_read(function, note):
    backwards = [passed(loss(2, 1.0, function=f"cross_entropy_{function}", hidden_in="Fast", site="train.py:7"))]

    assert hidden_losses(backwards) == [f"weights read from the gradient at {note}"]


@pytest.mark.parametrize(
    ("scale", "arrived", "unmoved"), [(2, 0.3, True), (1, 0.3, True), (2, 1, False), (0.6, 0.3, False)]
)
def test_a_function_may_weigh_its_units_as_if_1_had_reached_it(scale, arrived, unmoved):
    hidden = {"function": "cross_entropy_at_hidden", "reduction": "none", "nonzero": 2, "hidden_in": "Fast"}

    assert only_term(passed(loss(2, scale, arrived=arrived, **hidden))).unmoved == unmoved


def test_class_weights_count_each_unit_by_its_weight():
    mean = only_term(passed(loss(4, 1.0, weight_sum=2.5)))
    sums = only_term(passed(loss(4, 2.0, weight_sum=2.5, reduction="sum")))

    assert (mean.counts_K.tolist(), mean.totals_K.tolist()) == ([2.5], [1.0])
    assert (sums.counts_K.tolist(), sums.totals_K.tolist()) == ([2.5], [5.0])


@pytest.mark.parametrize("empty", [
    loss(0, math.nan),
    loss(0, math.nan, reduction="sum"),
    loss(10, math.nan, reduction="none", nonzero=0),
], ids=lambda seen: seen["reduction"])  # fmt: skip
def test_a_loss_over_no_unit_weighs_nothing_whatever_reached_it(empty):
    term = only_term(passed(empty), passed({**loss(4, 1.0), "reduction": empty["reduction"], "nonzero": 4}))

    assert term.totals_K[0] == 0
    assert term.totals_K[1] > 0


def test_a_mean_over_no_unit_weighs_nothing():
    term = only_term(passed(loss(0, 1.0)), passed(loss(4, 1.0)))

    assert (term.totals_K.tolist(), term.unit_weights_K.tolist()) == ([0, 1], [0, 0.25])
    assert term.has_K.tolist() == [True, True]


def test_a_loss_times_zero_beside_others_has_no_units_of_its_own():
    term = only_term(passed(loss(4, 1.0)), passed(loss(8, 0.0)))

    assert (term.counts_K.tolist(), term.has_K.tolist(), term.elements) == ([4, 0], [True, True], 12)


@pytest.mark.parametrize(
    "second",
    [
        [loss(8, 0.0), loss(8, 1.0)],
        [loss(8, None)],
        [loss(8, 0.0, reduction="none", nonzero=8, smallest=0.5, largest=0.5)],
    ],
    ids=["a part of it", "of unknown scale", "units of both signs"],
)
def test_negative_control_else_units_count(second):
    assert only_term(passed(loss(4, 1.0)), passed(*second)).counts_K[1] >= 8


def test_where_all_losses_came_to_nothing_their_units_stay():
    assert only_term(passed(loss(4, 0.0)), passed(loss(8, 0.0))).counts_K.tolist() == [4, 8]


def test_losses_of_one_function_at_one_line_add_up_inside_a_backward():
    term = only_term(passed(loss(4, 0.5), loss(4, 0.5)))

    assert (term.counts_K.tolist(), term.totals_K.tolist(), term.spread) == ([8], [1], 1.0)


def test_losses_of_unlike_scale_inside_a_backward_are_a_spread():
    assert only_term(passed(loss(4, 0.5), loss(8, 0.5))).spread == 2.0


def test_two_functions_are_two_terms():
    second = loss(2, 0.1, function="mse_loss", site="train.py:50", classes=None)

    (terms,) = read_losses([passed(loss(4), second)], None).alternatives

    assert [term.name for term in terms] == ["cross_entropy(mean) at train.py:41", "mse_loss(mean) at train.py:50"]
    assert [term.counts_K.tolist() for term in terms] == [[4], [2]]


def test_one_function_at_two_lines_of_one_backward_is_two_terms():
    (terms,) = read_losses([passed(loss(4), loss(4, site="train.py:50"))], None).alternatives

    assert len(terms) == 2


def test_one_function_at_two_lines_of_two_backwards_is_one_term_or_two():
    readings = read_losses([passed(loss(4)), passed(loss(6, site="train.py:50"))], None)

    assert [len(way) for way in readings.alternatives] == [1, 2]
    assert readings.alternatives[0][0].counts_K.tolist() == [4, 6]


def test_another_number_of_classes_is_another_term():
    (terms,) = read_losses([passed(loss(4), loss(4, classes=2))], None).alternatives

    assert len(terms) == 2


def test_a_term_that_a_contribution_lacks_is_not_had_by_it():
    extra = loss(2, function="mse_loss", site="train.py:50")

    (terms,) = read_losses([passed(loss(4), extra), passed(loss(4))], None).alternatives

    assert terms[1].has_K.tolist() == [True, False]


@pytest.mark.parametrize("unit", ["example", "sequence"])
def test_rows_are_counted_where_examples_or_sequences_are_asked_for(unit):
    term = only_term(passed(loss(12, 1.0, rows=3)), unit=unit)

    assert (term.counts_K.tolist(), term.unit_weights_K.tolist()) == ([3], [1 / 3])


def test_tokens_are_counted_where_nothing_else_is_asked_for():
    assert only_term(passed(loss(12, 1.0, rows=3)), unit="token").counts_K.tolist() == [12]


def test_the_spread_of_rows_is_that_of_the_rows():
    seen = loss(12, 3.0, reduction="none", nonzero=12, smallest=0.1, largest=0.3, rows=3, row_smallest=1, row_largest=1)

    assert only_term(passed(seen), unit="sequence").spread == 1.0
    assert only_term(passed(seen)).spread == pytest.approx(3.0)


def test_sequences_of_flat_targets_cannot_be_counted():
    assert read_losses([passed(loss(12))], "sequence").uncounted == (
        "sequences cannot be counted at cross_entropy (train.py:41): its targets came as one flat row. "
        "Say their number with failuremap.count(sequences, loss), or audit with --unit token"
    )
    assert read_losses([passed(loss(12, rows=3))], "sequence").uncounted == ""
    assert read_losses([passed(loss(12))], None).uncounted == ""


def test_a_count_that_the_script_said_is_a_term_of_unknown_scale():
    term = only_term(passed(counts=[7]), passed(counts=[3, 2]))

    assert (term.counts_K.tolist(), term.totals_K.tolist()) == ([7, 5], [1, 1])
    assert (term.total_known, term.name) == (False, "failuremap.count")


def test_a_count_with_its_loss_is_a_term_of_known_scale():
    term = only_term(passed(loss(7, 0.5, function="count", site="train.py:9"), counts=[]))

    assert (term.total_known, term.totals_K.tolist()) == (True, [0.5])


def test_elements_include_those_that_the_loss_ignores():
    assert only_term(passed(loss(7, elements=12)), passed(loss(5, elements=12))).elements == 24


def test_a_backward_without_a_seen_loss_is_unseen():
    readings = read_losses([passed(loss(4)), passed(unseen=["Gather", "Add"])], None)

    assert (readings.unseen, readings.unseen_operations) == ([1], ["Add", "Gather"])


def test_a_backward_whose_loss_was_seen_is_not_unseen():
    assert read_losses([passed(loss(4))], None).unseen == []


def test_a_term_that_was_not_seen_makes_its_backward_unseen():
    assert read_losses([passed(loss(4), unseen=["Gather"])], None).unseen == [0]


@pytest.mark.parametrize("seen", [loss(4, function="unit_losses"), loss(4, function="count")])
def test_a_marked_loss_answers_for_the_whole_backward(seen):
    assert read_losses([passed(seen, unseen=["Gather"])], None).unseen == []


def test_a_backward_that_another_way_started_is_seen_by_its_losses():
    assert read_losses([passed(loss(4), via="grad")], None).unseen == []
    assert read_losses([passed(via="grad")], None).unseen == [0]


def test_no_loss_at_all_is_no_way_to_read():
    assert read_losses([passed()], None).alternatives == []


def by_hand(count, total, function="log_softmax"):
    return loss(count, total, reduction="none", nonzero=count, function=function)


@pytest.mark.parametrize(
    "found",
    [
        [(4, 0.4), (9, 0.9), (2, 0.2), (7, 0.7)],  # one count for all
        [(4, 1.0), (9, 1.0), (2, 1.0), (7, 1.0)],  # each its own mean
        [(4, 4 / 13), (9, 9 / 13), (2, 2 / 9), (7, 7 / 9)],  # a count for each rank
        [(4, 1.0), (4, 1.0), (2, 1.0), (0, 0.0)],  # the same, two of them alike, and one without units
    ],
)
def test_log_probabilities_whose_weights_go_by_the_counts_are_losses(found):
    readings = read_losses([passed(by_hand(*each)) for each in found], None)

    assert (len(readings.alternatives), readings.unseen) == (1, [])


def test_log_probabilities_that_are_weighed_by_more_than_counts_are_not_seen():
    rewarded = [passed(by_hand(4, 0.4)), passed(by_hand(4, 0.9)), passed(loss(3, 1.0))]
    readings = read_losses(rewarded, None)

    assert (readings.unseen, readings.unseen_operations) == ([0, 1], ["log_softmax"])
    assert [term.name for (term,) in readings.alternatives] == ["cross_entropy(mean) at train.py:41"]


def test_a_loss_of_torch_is_believed_whatever_its_weights():
    readings = read_losses([passed(by_hand(4, 0.4, "cross_entropy")), passed(by_hand(4, 0.9, "cross_entropy"))], None)

    assert readings.unseen == []
