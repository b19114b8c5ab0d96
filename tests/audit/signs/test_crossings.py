"""What a script's collectives say of a step: why contributions are missing, and what was not weighed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.calling import IDS, SIZE, call, crossing, on_gradients, with_calls
from audit.judging import DDP
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict
from failuremap.audit.sentences import call_words

FOUR = [[300], [200], [100], [250]]
TWO = [[400], [100]]
ACROSS = {0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)}


def names(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def own(window: Any) -> Any:
    """Each rank steps on its own gradient."""
    return np.array([gradients.sum(axis=0) for gradients in window.gradients_RML])


def of_the_node(window: Any) -> Any:
    """Two ranks a node: each steps on the sum over its node."""
    by_rank = window.gradients_RML.sum(axis=1)
    return np.array([by_rank[rank // 2 * 2] + by_rank[rank // 2 * 2 + 1] for rank in range(4)])


def right(window: Any) -> Any:
    """The mean over all units."""
    return window.combined(window.counts_RM / window.counts_RM.sum())


def alone_on(*parameters: str) -> Any:
    """Each rank steps on its own gradient of these parameters, and rightly on the others'."""

    def update(window: Any) -> Any:
        updates = right(window)
        for name in parameters:
            updates[:, window.columns(name)] = own(window)[:, window.columns(name)]
        return updates

    return update


def diagnosed(folder: Any, update: Any, counts: Any, *calls: dict[str, Any], **job: Any) -> Verdict:
    """The verdict on a job that makes these calls on every rank before every step."""
    return diagnose(with_calls(HandJob(counts, update, **job), folder, lambda *_: calls))


# ---- why contributions are missing


def test_a_sum_of_what_is_missing_that_no_update_holds_is_a_result_that_was_lost(tmp_path):
    job = HandJob(FOUR, of_the_node)
    verdict = diagnose(with_calls(job, tmp_path, lambda rank, _: [call(ACROSS[rank])]))

    assert (verdict.outcome, names(verdict)) == ("wrong", ["result-lost"])
    assert verdict.sentence == (
        "The ranks are added up in groups that are never added up with each other: ranks 0, 1; ranks 2, 3."
    )


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [call((0, 1), other_elements=1, elements=1)],
        [call((0, 1), other_elements=SIZE // 2)],
        [call((0, 1), other_elements=3 * SIZE)],
        [on_gradients((0, 1))],
        [call((0, 1), own=False)],
        [call((0,))],
        [call((0, 1), when="before", other_elements=0)],
        [call((0, 1), function="broadcast")],
    ],
    ids=[
        "none", "a loss for the log", "half as many", "far more", "on the gradients", "by the framework", "alone",
        "before backward", "no sum",
    ],
)  # fmt: skip
def test_negative_control_other_calls_leave_it_never_synchronised(entries, tmp_path):
    verdict = diagnosed(tmp_path, own, TWO, *entries)

    assert (verdict.outcome, names(verdict)) == ("wrong", ["never-synchronised"])


def test_padding_of_the_buffer_does_not_matter(tmp_path):
    verdict = diagnosed(tmp_path, own, TWO, call((0, 1), calls=1, other_elements=SIZE + 60))

    assert names(verdict) == ["result-lost"]


@pytest.mark.parametrize(
    ("passes", "within", "after", "named"),
    [
        (1, 1.0, 0.0, "result-lost"),
        (2, 1.0, 0.0, "result-lost"),
        (2, 2.0, 0.0, "result-lost"),
        (1, 0.75, 0.25, "result-lost"),
        (1, 2.0, 0.0, "never-synchronised"),
        (2, 0.5, 0.0, "never-synchronised"),
    ],
)
def test_a_sum_in_hooks_of_backward_that_no_update_holds_is_lost_too(passes, within, after, named, tmp_path):
    hooked = call((0, 1), when="backward", elements=int(within * SIZE), other_elements=0)
    flushed = [call((0, 1), other_elements=int(after * SIZE))] if after else []
    verdict = diagnosed(tmp_path, own, [[300] * passes, [200] * passes], hooked, *flushed)

    assert names(verdict) == [named]


@pytest.mark.parametrize("waiting", [0, 4])
def test_buckets_that_nobody_waits_for_are_told_where_the_update_is_right(waiting, tmp_path):
    hooked = call((0, 1), when="backward", other_elements=0, waiting=waiting)
    verdict = diagnosed(tmp_path, right, TWO, hooked)

    assert (verdict.outcome, [note for note in verdict.notes if "not waited for" in note] != []) == (
        "right",
        waiting > 0,
    )


def test_one_parameter_whose_sum_is_lost_is_named_as_such_too(tmp_path):
    verdict = diagnosed(tmp_path, alone_on("head.weight"), TWO, call((0, 1), calls=1, other_elements=80))

    assert (names(verdict), verdict.findings[0].parameters) == (["result-lost"], ["head.weight"])


def test_negative_control_a_parameter_too_small_to_know_its_sum_by_keeps_its_name(tmp_path):
    verdict = diagnosed(tmp_path, alone_on("layer.bias"), TWO, call((0, 1), calls=1, other_elements=8))

    assert names(verdict) == ["param-without-hook"]


@pytest.mark.parametrize("entry", [call((0, 1), waiting=4), on_gradients((0, 1), waiting=4)], ids=["copy", "in place"])
def test_a_reduction_that_nobody_waited_for_is_a_gradient_read_too_early(entry, tmp_path):
    verdict = diagnosed(tmp_path, own, TWO, entry)

    assert names(verdict) == ["read-before-reduced"]


def test_where_one_rank_alone_did_not_wait_neither_is_named(tmp_path):
    calls = {0: [call((0, 1), waiting=4)], 1: [call((0, 1))]}
    verdict = diagnose(with_calls(HandJob(TWO, own), tmp_path, lambda rank, _: calls[rank]))

    assert names(verdict) == ["never-synchronised"]


def test_an_error_of_a_reduction_names_the_step_that_went_on(tmp_path):
    def at_the_second(window: Any) -> Any:
        return alone_on("head.weight", "layer.bias")(window) if window.number == 1 else right(window)

    job = HandJob(TWO, at_the_second)
    failed = call((0, 1), calls=1, elements=0, other_elements=0, errors=["RuntimeError: gone"])
    verdict = diagnose(
        with_calls(job, tmp_path, lambda _, step: [on_gradients((0, 1)), *([failed] if step == 1 else [])])
    )

    assert names(verdict) == ["half-reduced-after-failure"]
    assert verdict.findings[0].steps == [2]


def test_negative_control_an_error_at_another_step_names_nothing(tmp_path):
    def at_the_second(window: Any) -> Any:
        return alone_on("head.weight", "layer.bias")(window) if window.number == 1 else right(window)

    failed = call((0, 1), calls=1, elements=0, other_elements=0, errors=["RuntimeError: gone"])
    verdict = diagnose(with_calls(HandJob(TWO, at_the_second), tmp_path, lambda _, step: [failed] if step == 2 else []))

    assert names(verdict) == ["param-without-hook"]


@pytest.mark.parametrize(
    "entry",
    [call((0, 1)), call((0, 1), errors=["E: x"]), call((0, 1), waiting=2), crossing((0, 1)), on_gradients((0, 1))],
    ids=["copy", "error", "unawaited", "crossing", "on the gradients"],
)
def test_negative_control_no_call_accuses_a_right_job(entry, tmp_path):
    assert diagnosed(tmp_path, right, TWO, entry).outcome == "right"


# ---- activations that cross the ranks


def test_a_local_parameter_between_ranks_that_share_activations_has_its_part_alone(tmp_path):
    verdict = diagnosed(tmp_path, alone_on("head.weight"), TWO, crossing((0, 1)))

    assert names(verdict) == ["partials-not-reduced"]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (crossing((0, 1)), DDP),
        (crossing((0,)), {}),
        (crossing((0, 1), own=False), {}),
        (call((0, 1), when="before", other_elements=0), {}),
    ],
    ids=["under DDP", "alone", "a layer of the framework", "by no function"],
)
def test_negative_control_else_it_is_one_without_a_hook(entry, path, tmp_path):
    verdict = diagnosed(tmp_path, alone_on("head.weight"), TWO, entry, path=path)

    assert names(verdict) == ["param-without-hook"]


def test_functions_of_torch_distributed_nn_let_activations_cross_too(tmp_path):
    verdict = diagnosed(tmp_path, alone_on("head.weight"), TWO, {**crossing((0, 1)), "by": "_AllReduce", "own": False})

    assert names(verdict) == ["partials-not-reduced"]


# ---- ranks that hold parts of one model


def split(folder: Any, update: Any, *calls: dict[str, Any], alike: bool = True, apart: bool = True) -> Verdict:
    """A job of two ranks on the same targets, whose weights differ in one parameter from the start."""

    def weights(first: Any, rank: int) -> Any:
        first[-80:] += rank * apart
        return first

    job = HandJob(TWO, update, weights=weights)
    written = with_calls(job, folder, lambda *_: calls)
    if not alike:
        return diagnose(written)
    return diagnose(with_calls(_AlikeJob(TWO, update, weights=weights), folder, lambda *_: calls))


class _AlikeJob(HandJob):
    """A job whose ranks go through the same batches."""

    def records(self) -> Any:
        found = super().records()
        for records in found:
            for place in of_kind(records, "backward"):
                for seen in records[place][0]["losses"]:
                    seen["fingerprint"] = 1.0 + records[place][0]["id"]
        return found


def test_parts_of_one_model_cannot_be_told_from_replicas_that_never_met(tmp_path):
    verdict = split(tmp_path, own, crossing((0, 1)))

    assert (verdict.outcome, verdict.findings, verdict.reasons) == ("cannot tell", [], [call_words.ONE_MODEL])


@pytest.mark.parametrize(
    ("calls", "how"),
    [([], {}), ([crossing((0, 1))], {"alike": False}), ([crossing((0, 1))], {"apart": False})],
    ids=["nothing crosses", "other batches", "the same weights"],
)
def test_negative_control_else_ranks_that_step_alone_are_wrong(calls, how, tmp_path):
    assert split(tmp_path, own, *calls, **how).outcome == "wrong"


# ---- notes


def notes(folder: Any, *calls: dict[str, Any], **job: Any) -> list[str]:
    """The notes on a right job, without the one on equal counts."""
    verdict = diagnosed(folder, right, TWO, *calls, **job)
    assert verdict.outcome == "right"
    return verdict.notes


def test_a_backward_of_the_scripts_own_is_told_to_be_unchecked(tmp_path):
    (note,) = notes(tmp_path, crossing((0, 1)), {**crossing((0, 1)), "by": "Gather", "site": "train.py:9"})

    assert note == (
        "activations cross the ranks in Sum (train.py:3), Gather (train.py:9): what the backward hands on there is not "
        "checked. To check it: for y = forward(v), (y * g).sum() and (v * backward(g)).sum(), each added up over the "
        "ranks, are equal (wrong-backward-scale) (3 of 3 steps)"
    )


def test_what_autograd_does_not_see_crossing_is_never_called_right(tmp_path):
    entry = call((0, 1), function="all_gather", when="before", other_elements=0, carries_gradient=True, rows=9)

    verdict = diagnosed(tmp_path, right, TWO, entry)
    (reason,) = verdict.reasons
    assert verdict.outcome == "cannot tell"
    assert reason == (
        "all_gather at train.py:7 takes a tensor that carries a gradient, and autograd does not see the call: if the "
        "loss is made of its result, the part of the gradient that crosses the ranks is missing "
        "(gathered-part-detached) (3 of 3 steps)"
    )


def test_as_many_gathered_rows_as_the_loss_has_classes_are_told(tmp_path):
    entry = call((0, 1), function="all_gather", when="before", other_elements=0, rows=10)

    (note,) = notes(tmp_path, entry)
    assert note == (
        "a loss chooses from 10 classes, as many as all_gather at train.py:7 brings rows from all ranks, without a "
        "gradient: if these rows are features, each rank's own alone get one, and the mean over the ranks makes it too "
        "small (gathered-part-detached); compare with one process on the whole batch (3 of 3 steps)"
    )


def test_as_many_rows_that_carry_a_gradient_are_never_called_right(tmp_path):
    entry = call((0, 1), function="all_gather", when="before", other_elements=0, rows=10, carries_gradient=True)

    verdict = diagnosed(tmp_path, right, TWO, entry)
    assert verdict.outcome == "cannot tell"
    assert [reason.partition(",")[0] for reason in verdict.reasons] == ["a loss chooses from 10 classes"]


def test_a_reduction_of_gradients_that_nobody_waited_for_is_told(tmp_path):
    (note,) = notes(tmp_path, on_gradients((0, 1), waiting=1))
    assert note == (
        "reductions of gradients were started and not waited for before the optimizer stepped: what it reads depends "
        "on timing (read-before-reduced); call wait() on each handle (3 of 3 steps)"
    )


@pytest.mark.parametrize(
    "entry",
    [
        crossing((0,)),
        crossing((0, 1), own=False),
        call((0, 1), function="all_gather", when="before", rows=12),
        call((0, 1), function="all_gather", when="before", own=False, carries_gradient=True),
        call((0, 1), function="all_gather", when="after", rows=10, carries_gradient=True),
        call((0, 1), waiting=3),
    ],
    ids=["alone", "of torch", "other rows", "by torch", "for the log", "of something else"],
)
def test_negative_control_other_calls_are_not_worth_a_note(entry, tmp_path):
    assert notes(tmp_path, entry) == []


def halved(window: Any) -> Any:
    return right(window) / 2


@pytest.mark.parametrize(("ranks", "told"), [((0, 1), True), ((0, 1, 2), False), ((0, 1, 2, 3), False)], ids=str)
def test_a_factor_that_is_the_size_of_a_group_is_told(ranks, told, tmp_path):
    entry = call(ranks, when="before", elements=1, other_elements=0)
    verdict = diagnosed(tmp_path, halved, FOUR, entry)

    note = (
        "the factor 1/2 is the size of the groups of 2 ranks, out of 4, over which the script calls collectives: do "
        "the denominator of the loss and the divisor of the gradients count the same ranks (group-divisor-mismatch)? "
        "(3 of 3 steps)"
    )
    assert (verdict.outcome, note in verdict.notes) == ("right", told)


def test_where_activations_cross_such_a_factor_is_not_called_right(tmp_path):
    calls = call((0, 1), when="before", elements=1, other_elements=0), crossing((0, 1))
    verdict = diagnosed(tmp_path, halved, FOUR, *calls)

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert "the factor 1/2 is the size of the groups of 2 ranks, out of 4" in verdict.reasons[0]


def test_the_ids_of_the_helpers_are_those_of_the_parameters():
    assert IDS == {"embed.weight": 0, "layer.weight": 1, "layer.bias": 2, "head.weight": 3}
