"""The picture of a verdict: every cell with its number and its word, and the same in its text alternative."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

from failuremap.audit.model import Cell, Verdict
from failuremap.site.picture import MOST_MICRO_BATCHES, MOST_RANKS, picture

SVG = "{http://www.w3.org/2000/svg}"


def verdict(shares: dict[tuple[int, int], float | None], **more) -> Verdict:
    """Return a verdict with these shares by rank and micro-batch."""
    cells = [Cell(rank=rank, micro_batch=column, count=3, share=share) for (rank, column), share in shares.items()]
    return Verdict(outcome="wrong", sentence="One <b>weighs</b> more.", cells=cells, **more)


def drawn(one: Verdict) -> ET.Element:
    """Return the picture as a tree; it is well-formed."""
    return ET.fromstring(str(picture(one, "here")))


def texts(tree: ET.Element) -> list[str]:
    """Return what is written in the picture."""
    return ["".join(one.itertext()) for one in tree.iter("text")]


def test_each_cell_has_number_word_and_count():
    seen = texts(drawn(verdict({(0, 0): 2.0, (0, 1): 1.0, (1, 0): 0.5, (1, 1): 0.0})))

    assert {"2.00heavy", "1.00fair", "0.50light", "0.00no weight", "rank 0", "rank 1", "micro-batch 1"} <= set(seen)
    assert seen.count("3 tokens") == 4


def test_the_alternative_says_each_cell():
    tree = drawn(verdict({(0, 0): 2.25, (1, 0): None}))

    first, second = "Rank 0, micro-batch 0, 3 tokens: ", "Rank 1, micro-batch 0, 3 tokens: "
    assert tree.find("desc").text.strip() == f"{first}2.25 times a fair share, heavy. {second}not measured."
    assert tree.get("role") == "img" and tree.get("aria-labelledby") == "here-title here-said"
    assert tree.find("title").text == "One <b>weighs</b> more."


def test_bars_are_as_long_as_the_shares():
    tree = drawn(verdict({(0, 0): 2.0, (1, 0): 0.5}))

    bars = [int(one.get("width")) for one in tree.iter("rect") if "bar" in one.get("class", "").split()]
    assert bars[0] == pytest.approx(4 * bars[1], rel=0.02)


def test_cells_stand_where_their_rank_and_micro_batch_are():
    tree = drawn(verdict({(3, 7): 2.0, (3, 9): 0.5, (5, 7): 1.0, (5, 9): 4.0}))

    grounds = [one for one in tree.iter("rect") if "ground" in one.get("class")]
    x, y = zip(*[(float(one.get("x")), float(one.get("y"))) for one in grounds], strict=True)
    assert x[0] == x[2] < x[1] == x[3] and y[0] == y[1] < y[2] == y[3]


def test_of_too_many_cells_the_rest_is_counted():
    shares = {(rank, column): 1.5 for rank in range(MOST_RANKS + 1) for column in range(MOST_MICRO_BATCHES)}

    assert drawn(verdict(shares)).find("desc").text.endswith(f"{MOST_MICRO_BATCHES} more cells are not drawn.")


@pytest.mark.parametrize("share", [math.inf, math.nan, -1.0])
def test_what_is_no_plain_number_is_drawn_all_the_same(share):
    assert len(texts(drawn(verdict({(0, 0): share, (1, 0): 1.5})))) == 8


def test_nothing_measured_is_no_picture():
    assert picture(verdict({(0, 0): None}), "here") == ""
    assert picture(Verdict(outcome="right", sentence="Fine."), "here") == ""


def test_a_picture_has_no_style_and_no_script():
    assert re.findall(r"style=|<script|on\w+=", picture(verdict({(0, 0): 2.0}), "here")) == []
