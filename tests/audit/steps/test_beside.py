"""What stands beside a step: calls of collectives with the ranks they ran on, and a learning rate a parameter."""

from __future__ import annotations

import pytest

from audit.small_traces import opened, passed, ranks_of, stepped
from failuremap.errors import TraceError

GROUP = ({"kind": "group", "id": 3, "ranks": [[0, 2, 2]]}, None)


def call(**more):
    """One entry as a trace holds it; what is optional is left out."""
    return {
        "function": "all_reduce", "group": 3, "when": "after", "own": True, "site": "train.py:7", "calls": 2,
        "elements": 7, **more,
    }  # fmt: skip


def called(*entries):
    """The record of a window's calls."""
    return ({"kind": "collectives", "calls": list(entries)}, None)


def stepped_at(rates, count=0, **more):
    """A step that tells its rates."""
    fields, numbers = stepped(count, **more)
    return ({**fields, "rates": rates}, numbers)


def beside_of(folder, *records):
    """What stands beside each step of the only rank."""
    (rank,) = ranks_of(folder, [*opened(), *records])
    return [part.beside for part in rank.parts]


def test_calls_belong_to_the_step_behind_them(tmp_path):
    first, second = beside_of(tmp_path, GROUP, passed(0), called(call()), stepped(), passed(1), stepped(1))

    (found,) = first.calls
    assert (found.function, found.ranks, found.when, found.calls, found.elements) == (
        "all_reduce",
        (0, 2),
        "after",
        2,
        7,
    )
    assert second.calls == []


def test_what_an_entry_leaves_out_is_nothing(tmp_path):
    (beside,) = beside_of(tmp_path, GROUP, passed(0), called(call()), stepped())

    (found,) = beside.calls
    assert (found.op, found.by, found.parameters, found.other_elements, found.waiting) == ("", "", frozenset(), 0, 0)
    assert (found.carries_gradient, found.rows, found.errors) == (False, 0, ())


def test_what_an_entry_says_is_read(tmp_path):
    said = call(
        op="sum", by="Sum", parameters=[1], other_elements=5, waiting=2, carries_gradient=True, rows=9, errors=["E: x"]
    )
    (beside,) = beside_of(tmp_path, GROUP, passed(0), called(said), stepped())

    (found,) = beside.calls
    assert (found.op, found.by, found.parameters, found.other_elements, found.waiting) == ("sum", "Sum", {"b"}, 5, 2)
    assert (found.carries_gradient, found.rows, found.errors) == (True, 9, ("E: x",))


@pytest.mark.parametrize(("ranks", "crosses"), [([[0, 2, 1]], True), ([[0, 1, 1]], False)])
def test_a_call_among_one_rank_crosses_nothing(ranks, crosses, tmp_path):
    group = ({"kind": "group", "id": 3, "ranks": ranks}, None)
    (beside,) = beside_of(tmp_path, group, passed(0), called(call()), stepped())

    assert beside.calls[0].crosses is crosses


def test_rates_stand_for_the_parameters_in_their_order(tmp_path):
    beside = beside_of(tmp_path, passed(0), stepped_at([[0.1, 1], [None, 1]]), passed(1), stepped_at([[0.2, 2]], 1))

    assert [one.rates for one in beside] == [{"a": 0.1, "b": None}, {"a": 0.2, "b": 0.2}]


def test_optimizers_that_make_one_step_together_have_both_rates_and_calls(tmp_path):
    (beside,) = beside_of(
        tmp_path,
        GROUP,
        passed(0),
        called(call()),
        stepped_at([[0.1, 1]], ids=[0]),
        called(call(function="broadcast")),
        stepped_at([[0.2, 1]], ids=[1], optimizer=1),
    )

    assert beside.rates == {"a": 0.1, "b": 0.2}
    assert [one.function for one in beside.calls] == ["all_reduce", "broadcast"]


def test_a_trace_without_either_is_read_as_before(tmp_path):
    (beside,) = beside_of(tmp_path, passed(0), stepped())

    assert (beside.calls, beside.rates) == ([], {})


def test_calls_on_a_group_that_was_not_introduced_are_an_error(tmp_path):
    with pytest.raises(TraceError, match=r"record 4 \(collectives\) does not follow the format \(KeyError: 3\)"):
        beside_of(tmp_path, passed(0), called(call()), stepped())
