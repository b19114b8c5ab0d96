"""Losses of one line with other numbers of classes in other passes: one loss where its classes go with the batch."""

from __future__ import annotations

import numpy as np
import pytest

from audit.traces import loss
from audit.weighing.test_weigh import passed
from failuremap.audit.weighing.weigh import read_losses

BODY_ALONE = np.array([[True, False, False], [True, False, False]])
HEADS = np.array([[True, True, False], [True, False, True]])


def counts(used_KP, *passes):
    """The counts of each term of the way to believe."""
    return [term.counts_K.tolist() for term in read_losses(passes, None, used_KP).alternatives[0]]


@pytest.mark.parametrize("used_KP", [None, BODY_ALONE, HEADS])
@pytest.mark.parametrize("others", [0, 1], ids=["all rows", "all other rows"])
def test_rows_that_choose_among_those_of_their_batch_are_one_loss(others, used_KP):
    batches = [passed(loss(size, classes=size - others)) for size in (12, 18)]

    assert counts(used_KP, *batches) == [[12, 18]]


def test_positions_of_padded_sequences_are_classes_of_one_loss():
    assert counts(BODY_ALONE, passed(loss(4, classes=31)), passed(loss(6, classes=40))) == [[4, 6]]


def test_heads_of_their_own_are_terms():
    tasks = passed(loss(4, classes=31)), passed(loss(6, classes=40))

    assert counts(HEADS, *tasks) == counts(None, *tasks) == [[4, 0], [0, 6]]


def test_heads_that_one_pass_calls_are_terms():
    both = passed(loss(4, classes=31, fingerprint=1.0), loss(4, classes=40, fingerprint=2.0))

    assert counts(BODY_ALONE, both, both) == [[4, 4], [4, 4]]
