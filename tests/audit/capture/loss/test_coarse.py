"""A weight that rounding leaves unclear is one of those that it may be, or none."""

from __future__ import annotations

import pytest
import torch

from failuremap.audit.capture.loss.coarse import common

pytestmark = pytest.mark.torch


def weight_of(candidates, weights=(1.0,) * 4, error=0.03, misfit=0.0, features=8):
    """The common weight of rows with such errors."""
    rows = torch.tensor(weights, dtype=torch.float64)
    return common(rows, torch.full_like(rows, misfit), torch.full_like(rows, error), features, candidates)


@pytest.mark.parametrize(
    ("candidates", "found"),
    [
        ([1.02, 0.5], 1.02),
        ([1.0, 1.004], 1.0),
        ([1.0, 1.02], None),
        ([1.2, 0.5], None),
        ([-1.0], None),
    ],
    ids=["one", "alike", "two", "none", "negative"],
)
def test_the_weight_is_the_only_candidate_within_the_errors(candidates, found):
    assert weight_of(candidates) == found


@pytest.mark.parametrize(
    "given",
    [{"error": 0.05}, {"weights": (1.0,) * 3}, {"features": 7}, {"misfit": 0.07}, {"weights": (1.0, 1.0, 1.0, 1.2)}],
    ids=["coarse", "few-rows", "few-features", "misfit", "uneven"],
)
def test_rows_that_say_too_little_give_no_weight(given):
    assert (weight_of([1.0]), weight_of([1.0], **given)) == (1.0, None)
