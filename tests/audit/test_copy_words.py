"""What a verdict says of copies that an optimizer steps on, word by word."""

from __future__ import annotations

from audit.small_traces import opened, passed, ranks_of, stepped
from failuremap.audit import copy_words


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
