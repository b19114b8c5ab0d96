"""Sentences on what is spread over ranks read as a person would write them."""

from __future__ import annotations

import pytest

from failuremap.audit.sentences import shard_words


@pytest.mark.parametrize(
    ("numbers", "text"), [([1], "rank 1"), ([0, 1], "ranks 0 and 1"), ([0, 1, 2, 3], "ranks 0, 1, 2 and 3")]
)
def test_ranks_are_listed(numbers, text):
    assert shard_words.ranks(numbers) == text


def test_types_that_are_not_watched_are_named():
    assert shard_words.unwatched(["A", "B"]) == "parameters or gradients of type A, B are not watched"
