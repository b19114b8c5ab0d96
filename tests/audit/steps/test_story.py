"""One rank's trace, followed: what a step holds, what was thrown away, and records that do not follow the format."""

from __future__ import annotations

import numpy as np
import pytest

from audit.small_traces import numbers, opened, passed, ranks_of, stepped
from audit.traces import HandJob, backward, end, header, loss, parameter, step, write_records
from failuremap.audit import trace
from failuremap.audit.steps.layouts import Layout
from failuremap.audit.steps.story import Rank, read_rank
from failuremap.errors import TraceError


def rank_of(folder, *records) -> Rank:
    """One rank that wrote these records behind its header and parameters."""
    (rank,) = ranks_of(folder, [*opened(), *records])
    return rank


def parts_of(folder, *records):
    """The steps of one rank: the parameters that each steps on, and the backward passes before it."""
    return [(sorted(part.ids), [b.id for b in part.backwards]) for part in rank_of(folder, *records).parts]


def test_a_step_holds_the_backward_passes_since_the_last_one(tmp_path):
    parts = parts_of(tmp_path, passed(0), passed(1, kept=[0, 1]), stepped(), passed(2), stepped(1))

    assert parts == [([0, 1], [0, 1]), ([0, 1], [2])]


def test_one_backward_in_two_records_is_one_backward(tmp_path):
    (part,) = rank_of(tmp_path, passed(0, ids=[0]), passed(0, ids=[1]), stepped()).parts

    (only,) = part.backwards
    assert (len(only.losses), [chunk.ids for chunk in only.chunks]) == (2, [(0,), (1,)])


def test_backwards_before_no_step_are_left_over(tmp_path):
    assert rank_of(tmp_path, passed(0), stepped(), passed(1), passed(2)).left_over == 2


def test_all_backwards_used_are_none_left_over(tmp_path):
    assert rank_of(tmp_path, passed(0), stepped()).left_over == 0


def test_a_backward_of_which_one_optimizer_used_a_part_is_not_left_over(tmp_path):
    assert rank_of(tmp_path, passed(0), stepped(ids=[0])).left_over == 0


# ---- several optimizers


def test_optimizers_that_step_on_the_same_backwards_make_one_step(tmp_path):
    parts = parts_of(tmp_path, passed(0), stepped(ids=[0]), stepped(ids=[1], optimizer=1))

    assert parts == [([0, 1], [0])]


def test_optimizers_that_step_on_their_own_backwards_make_two_steps(tmp_path):
    parts = parts_of(tmp_path, passed(0, ids=[0]), stepped(ids=[0]), passed(1, ids=[1]), stepped(ids=[1], optimizer=1))

    assert parts == [([0], [0]), ([1], [1])]


def test_a_second_step_of_one_optimizer_without_a_backward_is_a_step_of_its_own(tmp_path):
    assert parts_of(tmp_path, passed(0), stepped(), stepped(1)) == [([0, 1], [0]), ([0, 1], [])]


def test_an_optimizer_inside_another_one_steps_on_the_same_gradients_once(tmp_path):
    assert parts_of(tmp_path, passed(0), stepped(), stepped(optimizer=1)) == [([0, 1], [0])]


@pytest.mark.parametrize("ids", [[0], [1]])
def test_an_inner_optimizer_may_step_on_a_part_of_the_parameters(ids, tmp_path):
    assert parts_of(tmp_path, passed(0), stepped(), stepped(ids=ids, optimizer=1)) == [([0, 1], [0])]


@pytest.mark.parametrize(
    "second",
    [stepped(fill=2.0, optimizer=1), stepped(1)],
    ids=["other gradients", "the same optimizer"],
)
def test_a_step_of_other_gradients_or_of_the_same_optimizer_is_not_taken_for_an_inner_one(second, tmp_path):
    assert parts_of(tmp_path, passed(0), stepped(), second) == [([0, 1], [0]), ([0, 1], [])]


def test_an_optimizer_with_parameters_that_the_last_did_not_step_on_is_not_an_inner_one(tmp_path):
    parts = parts_of(tmp_path, passed(0, ids=[0]), stepped(ids=[0]), stepped(optimizer=1))

    assert parts == [([0], [0]), ([0, 1], [])]


# ---- gradients that were thrown away


def test_a_backward_that_found_no_gradient_discards_those_before_it(tmp_path):
    rank = rank_of(tmp_path, passed(0), passed(1), passed(2, kept=[0, 1]), stepped())

    assert rank.parts[0].discarded == {0}


def test_backwards_that_found_a_gradient_discard_nothing(tmp_path):
    assert rank_of(tmp_path, passed(0), passed(1, kept=[0, 1]), stepped()).parts[0].discarded == set()


def test_gradients_by_autograd_grad_are_never_discarded(tmp_path):
    rank = rank_of(tmp_path, passed(0, via="grad"), passed(1, via="grad"), stepped())

    assert rank.parts[0].discarded == set()


def test_a_backward_that_kept_a_part_of_the_gradients_discards_nothing(tmp_path):
    assert rank_of(tmp_path, passed(0), passed(1, kept=[1]), stepped()).parts[0].discarded == set()


# ---- clips, notes, the end


def test_clips_belong_to_the_step_that_follows(tmp_path):
    clip = ({"kind": "clip", "function": "clip_grad_norm_", "norm": 3.0, "limit": 1.0}, None)

    first, second = rank_of(tmp_path, passed(0), clip, stepped(), passed(1), stepped(1)).parts

    assert ([c["norm"] for c in first.clips], second.clips) == ([3.0], [])


@pytest.mark.parametrize(("place", "after"), [(1, 0), (2, 1)])
def test_a_clip_knows_the_backward_that_it_came_after(place, after, tmp_path):
    clip = ({"kind": "clip", "function": "clip_grad_norm_", "norm": 3.0, "limit": 1.0}, None)
    records = [passed(0), passed(1, kept=[0, 1]), stepped()]
    records.insert(place, clip)

    assert [c["after"] for c in rank_of(tmp_path, *records).parts[0].clips] == [after]


def test_notes_and_unknown_kinds_change_no_step(tmp_path):
    note, unknown = ({"kind": "note", "text": "full"}, None), ({"kind": "append"}, None)

    rank = rank_of(tmp_path, note, unknown, passed(0), stepped())

    assert (rank.notes, len(rank.parts), rank.left_over) == (["full"], 1, 0)


def test_the_final_weights_are_those_of_the_end(tmp_path):
    rank = rank_of(tmp_path, passed(0), stepped(), (end([0, 1], 1), numbers(1, 2, 3, 4, 5, 6, 7)))

    assert rank.final_weights is not None
    assert (rank.final_weights.ids, rank.final_weights.numbers.tolist()) == ((0, 1), [1, 2, 3, 4, 5, 6, 7])


def test_a_trace_without_an_end_has_no_final_weights(tmp_path):
    assert rank_of(tmp_path, passed(0), stepped()).final_weights is None


# ---- a cut, and records that are whole and wrong


def test_a_trace_cut_anywhere_gives_steps_or_none_and_never_raises(tmp_path):
    job = HandJob([[300], [300]], shapes={"w": (16,)}, steps=2)
    path = job.write(tmp_path) / "rank00001-1.trace"
    whole, counts = path.read_bytes(), set()
    for size in range(len(trace.MAGIC), len(whole), 11):
        path.write_bytes(whole[:size])
        counts.add(len(read_rank(trace.read(path)).parts))

    assert counts == {0, 1, 2}


INTRODUCED = (parameter(0, "w", (4,)), None)
FOUR, EIGHT = np.ones(4, np.float32), np.ones(8, np.float32)
BROKEN = "does not follow the format"
NOT_THE_FORMAT = {
    "a backward before its parameter": (
        [(backward(0, [0], [loss(3)]), FOUR)],
        f"record 1 (backward) {BROKEN} (KeyError: 0)",
    ),
    "a step before its parameter": (
        [(step(0, [0]), EIGHT)],
        f"record 1 (step) {BROKEN} (KeyError: 0)",
    ),
    "too few numbers": (
        [INTRODUCED, (backward(0, [0], [loss(3)]), np.ones(3, np.float32))],
        f"record 2 (backward) {BROKEN} (ValueError: 3 numbers, its parameters have 4)",
    ),
    "no fields": (
        [INTRODUCED, ({"kind": "step"}, None)],
        f"record 2 (step) {BROKEN} (KeyError: 'parameters')",
    ),
    "an empty loss": (
        [INTRODUCED, (backward(0, [0], [{}]), FOUR)],
        f"record 2 (backward) {BROKEN} (ValueError: a loss without count, function, reduction, scale, site)",
    ),
    "parameters that are no list": (
        [INTRODUCED, ({**step(0, []), "parameters": 7}, None)],
        f"record 2 (step) {BROKEN} (TypeError: 'int' object is not iterable)",
    ),
}


@pytest.mark.parametrize("name", NOT_THE_FORMAT)
def test_a_record_that_does_not_follow_the_format_is_named(name, tmp_path):
    records, complaint = NOT_THE_FORMAT[name]
    path = write_records(tmp_path, 0, [(header(0, 1), None), *records])

    with pytest.raises(TraceError) as raised:
        read_rank(trace.read(path))

    assert str(raised.value) == f"{path}: {complaint}; see docs/trace-format.md."


def test_a_record_that_follows_the_format_is_taken(tmp_path):
    records = [INTRODUCED, (backward(0, [0], [loss(3)]), FOUR), (step(0, [0]), EIGHT)]
    path = write_records(tmp_path, 0, [(header(0, 1), None), *records])

    assert len(read_rank(trace.read(path)).parts) == 1


PASSED, STEPPED = (backward(0, [0], [loss(3)]), FOUR), (step(0, [0]), EIGHT)
OTHER_SIZES = {
    "no update": [PASSED, (step(0, [0]), None)],
    "half an update": [PASSED, (step(0, [0]), np.ones(3, np.float32))],
    "too few weights": [PASSED, (step(0, [0]), np.ones(7, np.float32))],
    "too many weights": [PASSED, (step(0, [0]), np.ones(9, np.float32))],
    "too few final weights": [PASSED, STEPPED, (end([0], 1), np.ones(3, np.float32))],
    "final weights of an unknown parameter": [PASSED, STEPPED, (end([5], 1), FOUR)],
    "too little before a clip by value": [
        PASSED,
        ({"kind": "value-clip", "parameters": [0], "limit": 1.0}, FOUR[:2]),
        STEPPED,
    ],
    "a clip without its limit": [PASSED, ({"kind": "clip", "norm": 3.0}, None), STEPPED],
    "a count that is no number": [(backward(0, [0], [{**loss(3), "count": "many"}]), FOUR)],
    "a scale that is no number": [(backward(0, [0], [{**loss(3), "scale": "half"}]), FOUR)],
}


@pytest.mark.parametrize("name", OTHER_SIZES)
def test_what_does_not_fit_its_record_is_a_trace_error_and_never_a_verdict(name, tmp_path):
    path = write_records(tmp_path, 0, [(header(0, 1), None), INTRODUCED, *OTHER_SIZES[name]])

    with pytest.raises(TraceError, match=BROKEN):
        read_rank(trace.read(path))


def test_a_layout_says_what_is_spread_over_which_ranks(tmp_path):
    told = {"kind": "layout", "id": 1, "of": "update", "parts": [[0, 2, 2]], "mesh": [[0, 4, 1]]}
    rank = rank_of(tmp_path, ({**told, "held": [1, 2], "span": [[1, 3]]}, None), passed(0), stepped())

    assert rank.layouts == {("update", "b"): Layout((0, 2), (0, 1, 2, 3), (1, 2), ((1, 3),))}


def test_a_trace_without_layouts_has_none(tmp_path):
    assert rank_of(tmp_path, passed(0), stepped()).layouts == {}


@pytest.mark.parametrize(
    ("parts", "mesh"),
    [([[1, 2, 1]], [[0, 3, 1]]), ([[0, 2, 5]], [[0, 2, 1]]), ([0, 1], [[0, 2, 1]]), ([[0, "one", 1]], [[0, 2, 1]])],
    ids=["not-its-own", "outside", "no-runs", "no-numbers"],
)
def test_a_layout_that_cannot_be_is_an_error(parts, mesh, tmp_path):
    told = {"kind": "layout", "id": 1, "of": "update", "parts": parts, "mesh": mesh}

    with pytest.raises(TraceError, match=r"record 3 \(layout\) does not follow the format"):
        rank_of(tmp_path, (told, None))


def test_a_layout_of_a_parameter_that_was_not_introduced_is_an_error(tmp_path):
    told = {"kind": "layout", "id": 7, "of": "update", "parts": [[0, 1, 1]], "mesh": [[0, 1, 1]]}

    with pytest.raises(TraceError, match=r"record 3 \(layout\) does not follow the format \(KeyError: 7\)"):
        rank_of(tmp_path, (told, None))
