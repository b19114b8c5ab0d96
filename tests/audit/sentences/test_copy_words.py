"""What a verdict says of copies that an optimizer steps on, word by word."""

from __future__ import annotations

from audit.judging import edited
from audit.small_traces import opened, passed, ranks_of, stepped
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.sentences import copy_words


def parts(tmp_path, **fields):
    """One rank's side of a step whose record has these fields besides."""
    step, payload = stepped()
    (rank,) = ranks_of(tmp_path, [*opened(), passed(0), (step | fields, payload)])
    return rank.parts


def test_nothing_is_said_of_a_step_without_copies(tmp_path):
    assert copy_words.unmeasured(parts(tmp_path)) == []


def test_copies_of_unknown_parameters_are_told_with_what_would_make_them_known(tmp_path):
    (said,) = copy_words.unmeasured(parts(tmp_path, unmatched=2))

    assert said == (
        "the optimizer steps on 2 tensors that are no parameter of the model, as where copies in float32 are stepped "
        "on, and which parameters they stand for cannot be told: each has to equal one parameter, or several in a row, "
        "and no two the same one, when it is stepped on"
    )
    assert copy_words.unmatched(1).startswith("the optimizer steps on 1 tensor that is no parameter of the model, ")


def test_copies_that_have_gone_other_ways_are_told_with_what_to_do(tmp_path):
    (said,) = copy_words.unmeasured(parts(tmp_path, unlike=["a", "b"]))

    assert said == (
        "the optimizer steps on copies of a, b that no longer equal the model's own: what the model trains was not "
        "measured; copy the weights back before the next step"
    )


def test_copies_that_are_in_another_order_than_the_model_are_not_measured_and_accuse_nobody(tmp_path):
    """The updates of two parameters stand at each other's place."""

    def update(window):
        mean = window.combined(0.5)
        first, second = window.columns("a"), window.columns("b")
        mean[:, first], mean[:, second] = mean[:, second], mean[:, first].copy()
        return mean

    def by_order(_, records):
        for place in of_kind(records, "step"):
            records[place][0]["by_order"] = [0, 1]
        return records

    job = HandJob([[300], [300]], update, shapes={"a": (8, 16), "b": (8, 16), "c": (16, 16)})

    verdict = diagnose(edited(job, tmp_path, by_order))

    assert verdict.outcome == "not measured"
    assert f"{copy_words.by_order(['a', 'b'])} (3 of 3 steps)" in verdict.reasons


def test_the_sentence_on_copies_that_equal_several_parameters():
    assert copy_words.by_order(["a", "b"]) == (
        "which of several equal parameters the copies stand for that the optimizer steps on (a, b) cannot be told: "
        "their updates are no combination of the gradients of those that stand at their place in the model's order"
    )
