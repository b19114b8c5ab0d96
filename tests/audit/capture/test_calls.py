"""Calls that are alike are counted together: where they write, who waits for them, and no more than is bounded."""

from __future__ import annotations

import pytest

from failuremap.audit.capture.calls import Alike, Calls, Gradients

GRADIENTS = Gradients([(300, 400, 2), (100, 200, 0), (200, 260, 1)])
ALIKE = Alike("all_reduce", "sum", (0, 1), 3, False, "", True, "train.py:7", False, 0)


@pytest.mark.parametrize(
    ("start", "stop", "ids"),
    [
        (100, 200, [0]),
        (100, 400, [0, 1, 2]),
        (120, 130, [0]),
        (150, 230, [0, 1]),
        (260, 300, []),
        (0, 100, []),
        (400, 500, []),
        (399, 500, [2]),
    ],
)
def test_memory_lies_on_the_gradients_that_it_overlaps(start, stop, ids):
    assert GRADIENTS.at(start, stop) == ids


def test_without_gradients_nothing_lies_on_one():
    assert Gradients([]).at(0, 100) == []


def told(calls, backward_count=3):
    (entry,) = calls.taken()
    return entry.fields(backward_count, GRADIENTS)


def test_calls_that_are_alike_are_one_entry():
    calls = Calls()
    calls.add(ALIKE, 25, [(100, 200, 25)])
    calls.add(ALIKE, 40, [(500, 660, 40)])

    assert told(calls) == {
        "function": "all_reduce", "op": "sum", "when": "after", "own": True, "site": "train.py:7", "calls": 2,
        "elements": 65, "parameters": [0], "other_elements": 40,
    }  # fmt: skip


def test_where_a_call_before_the_last_backward_wrote_is_not_known():
    calls = Calls()
    calls.add(ALIKE, 25, [(100, 200, 25)])

    fields = told(calls, backward_count=4)
    assert (fields["when"], "parameters" in fields, "other_elements" in fields) == ("before", False, False)


def test_counting_starts_anew_after_a_step():
    calls = Calls()
    calls.add(ALIKE, 25, [])
    calls.taken()

    assert calls.taken() == []


def test_a_handle_that_is_waited_for_twice_counts_once():
    calls, handles = Calls(), [object(), object()]
    entry = calls.add(ALIKE, 1, [])
    for handle in handles:
        calls.started(entry, handle)
    calls.awaited(handles[0])
    calls.awaited(handles[0])
    calls.awaited(object())

    assert told(calls)["waiting"] == 1


def test_waiting_after_the_step_changes_no_later_entry():
    calls, handle = Calls(), object()
    calls.started(calls.add(ALIKE, 1, []), handle)
    calls.taken()
    entry = calls.add(ALIKE, 1, [])
    calls.awaited(handle)

    assert entry.waiting == 0


def test_what_is_kept_of_many_calls_is_bounded():
    calls = Calls()
    for _ in range(11_000):
        entry = calls.add(ALIKE, 1, [(500, 504, 1)])
        calls.failed(entry, ValueError("x" * 1000))

    fields = told(calls)
    assert (fields["calls"], fields["elements"], fields["other_elements"]) == (11_000, 11_000, 10_000)
    assert (len(fields["errors"]), len(fields["errors"][0])) == (3, 200)


def test_a_call_that_could_not_be_read_is_passed_over():
    calls = Calls()
    calls.failed(None, ValueError())
    calls.started(None, object())

    assert (calls.entries, calls.handles) == ({}, {})
