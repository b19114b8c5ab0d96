"""Whole models' gradients: trees of leaves are combined leaf by leaf, and come back as they were given."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from failuremap.aggregate import aggregate
from failuremap.errors import InvalidArgument

Layer = namedtuple("Layer", ["weight", "bias"])  # noqa: PYI024  what JAX libraries use


def test_every_leaf_is_combined_and_the_tree_is_kept() -> None:
    one = {"head": np.ones((2, 3)), "blocks": [{"w": [2.0]}, ([4], np.float32([1, 2]))], "layer": Layer([0.5], [1.5])}
    other = {"head": np.zeros((2, 3)), "blocks": [{"w": [6.0]}, ([0], np.float32([5, 6]))], "layer": Layer([2], [3])}

    update = aggregate([one, other], [3, 1])

    assert update["head"].tolist() == [[0.75] * 3] * 2
    assert update["blocks"][0] == {"w": [3.0]}
    assert update["blocks"][1][0] == [3.0]
    assert isinstance(update["blocks"][1], tuple)
    assert update["blocks"][1][1].tolist() == [2, 3]
    assert update["layer"] == Layer([0.875], [1.875])


def test_a_list_of_arrays_is_a_model() -> None:
    update = aggregate([[np.ones(2), np.ones(3)], [3 * np.ones(2), 5 * np.ones(3)]], rule="mean")

    assert [leaf.tolist() for leaf in update] == [[2, 2], [3, 3, 3]]


def test_the_order_of_keys_does_not_matter() -> None:
    assert aggregate([{"a": [1], "b": [2]}, OrderedDict(b=[4], a=[3])], rule="sum") == {"a": [4], "b": [6]}


def test_exact_numbers_stay_exact_in_a_tree() -> None:
    assert aggregate([{"a": [Fraction(1, 3)]}, {"a": [1]}], [1, 2]) == {"a": [Fraction(7, 9)]}


def test_a_parameter_without_a_gradient_anywhere_stays_so() -> None:
    assert aggregate([{"a": [1], "frozen": None}, {"a": [3], "frozen": None}], rule="mean") == {
        "a": [2],
        "frozen": None,
    }


def test_a_tree_with_count_0_is_skipped_whatever_it_is() -> None:
    assert aggregate([{"b": ["?"]}, {"a": [2.0]}, 7], [0, 1, 0]) == {"a": [2.0]}


def test_without_a_unit_a_tree_has_no_update() -> None:
    assert aggregate([{"a": [1.0]}, {"a": [2.0]}], [0, 0]) is None


@pytest.mark.parametrize(
    ("contributions", "message"),
    [
        (
            [{"a": [1], "b": [2]}, {"a": [1]}],
            (
                r"^contributions\[0\]\['b'\] is there but contributions\[1\] has nothing at \['b'\]; every "
                r"contribution has the same keys\. Give zeros for a parameter without a gradient\.$"
            ),
        ),
        (
            [{"a": [1]}, {"a": [1], "b": {"c": [2]}}],
            r"^contributions\[1\]\['b'\]\['c'\] is there but contributions\[0\] has nothing at \['b'\]\['c'\]; ",
        ),
        (
            [{"a": [1]}, [1.0]],
            r"^contributions\[0\]\['a'\] is there but contributions\[1\] has nothing at \['a'\]; every ",
        ),
        ([[[1], [2]], [[1]]], r"^contributions\[0\]\[1\] is there but contributions\[1\] has nothing at \[1\]; every "),
        (
            [{"a": [1]}, {"a": None}],
            r"^contributions\[1\]\['a'\] is None but contributions\[0\]\['a'\] is a list; give zeros for a parameter ",
        ),
        (
            [{"a": np.ones(1)}, {"a": [1.0]}],
            r"^contributions\[1\]\['a'\] is a list but contributions\[0\]\['a'\] is a NumPy array; give one kind\.$",
        ),
        (
            [{"a": [1.0]}, {"a": 1.0}],
            r"^contributions\[1\]\['a'\] is of type float; expected a list of numbers, a NumPy array or a PyTorch ten",
        ),
        (
            [{"a": np.ones(2)}, {"a": np.ones(3)}],
            r"^contributions\[1\]\['a'\] has shape \(3,\) but contributions\[0\]\['a'\] has shape \(2,\); every ",
        ),
        ([{"a": ["x"]}], r"^contributions\[0\]\['a'\]\[0\]='x' is no number; a gradient is a list of numbers\.$"),
    ],
)
def test_trees_that_differ_are_one_clear_error(contributions: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        aggregate(contributions, rule="sum")


def test_a_tree_that_holds_itself_is_refused() -> None:
    tree: dict[str, Any] = {}
    tree["again"] = tree

    with pytest.raises(InvalidArgument, match=r"gradient\['again'\]\['again'\].*after 200 levels.*Does it hold itself"):
        aggregate([tree, tree], rule="sum")


def test_a_tree_of_200_levels_is_combined() -> None:
    tree: Any = {"w": [1.0]}
    for _ in range(199):
        tree = [tree]

    combined = aggregate([tree, tree], rule="sum")

    for _ in range(199):
        (combined,) = combined
    assert combined == {"w": [2.0]}
