"""Ranks that hold parts of one model: what is not said of them, and what still is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.calling import SIZE, call, on_gradients, with_calls
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict
from failuremap.audit.sentences import call_words, step_words, words

TWO = [[400], [100]]
EVEN = [[300], [300]]


def names(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def own(window: Any) -> Any:
    """Each rank steps on its own gradient."""
    return np.array([gradients.sum(axis=0) for gradients in window.gradients_RML])


def expert_times(factor: float) -> Any:
    """Each rank steps on its own gradient of one parameter, times a factor, and on the mean of the others."""

    def update(window: Any) -> Any:
        updates = window.combined(0.5)
        place = window.columns("head.weight")
        updates[:, place] = factor * own(window)[:, place]
        return updates

    return update


def apart(first: Any, rank: int) -> Any:
    """Weights that differ in the last parameter from the start."""
    first[-80:] += rank
    return first


# ---- pipelines


class _Stages(HandJob):
    """A job whose first rank has no loss: it is handed a gradient."""

    def records(self) -> Any:
        found = super().records()
        for place in of_kind(found[0], "backward"):
            found[0][place][0]["losses"] = []
        return found


def sent(**more: Any) -> dict[str, Any]:
    """Activations, or their gradient, sent to another rank."""
    said = {"ranks": (0, 1), "function": "send", "when": "before", "other_elements": 0, "calls": 1}
    return call(**{**said, **more})


def handed_on(folder: Any, first: list[Any], second: list[Any], job: type[HandJob] = _Stages) -> Verdict:
    calls = [first, second]
    return diagnose(with_calls(job(TWO, own, weights=apart), folder, lambda rank, _: calls[rank]))


@pytest.mark.parametrize("function", ["send", "isend"])
def test_stages_of_a_pipeline_are_not_accused_of_adding_nothing_up(function, tmp_path):
    first, second = sent(function=function), sent(function=function, when="after", own=False)
    verdict = handed_on(tmp_path, [first], [second])

    assert (verdict.outcome, verdict.findings, verdict.reasons) == ("cannot tell", [], [call_words.STAGES])


def test_the_reason_says_what_of_a_pipeline_is_open():
    assert call_words.STAGES == (
        "ranks send tensors on before their backward passes end, and not all of them have a loss: they seem to be "
        "stages of one model (a pipeline), whose gradients nothing needs to add up, but for copies of one weight "
        "(tied-copies-not-summed); which pass goes on from which can't be told, so nothing is judged: each pass but "
        "the last stage's has to start from a gradient just as the next stage sent it after a pass"
    )


@pytest.mark.parametrize(
    ("first", "second", "job"),
    [
        ([], [], _Stages),
        ([sent()], [], _Stages),
        ([sent(when="after")], [sent(when="after")], _Stages),
        ([sent(elements=1)], [sent(elements=1)], _Stages),
        ([sent(elements=SIZE - 1)], [sent(elements=SIZE - 1)], HandJob),
    ],
    ids=["nothing is sent", "by one rank", "after backward", "one number", "all have a loss"],
)
def test_negative_control_else_ranks_that_step_alone_are_wrong(first, second, job, tmp_path):
    assert "never-synchronised" in names(handed_on(tmp_path, first, second, job))


# ---- experts


def routed(**more: Any) -> dict[str, Any]:
    """Units that go to other ranks in an autograd function of the script's own."""
    said = {"ranks": (0, 1), "function": "all_to_all_single", "when": "before", "by": "Swap", "other_elements": 0}
    return call(**{**said, **more})


def with_expert(folder: Any, factor: float, *calls: dict[str, Any], **job: Any) -> Verdict:
    return diagnose(with_calls(HandJob(EVEN, expert_times(factor), **job), folder, lambda *_: calls))


@pytest.mark.parametrize("job", [{"weights": apart}, {}], ids=["differ", "start equal"])
def test_experts_with_the_factor_of_the_rest_are_not_accused(job, tmp_path):
    verdict = with_expert(tmp_path, 0.5, routed(), **job)

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    (reason,) = verdict.reasons
    assert reason == (
        "each rank steps on its own gradient of head.weight, and units go to other ranks and back (all_to_all): "
        "experts that each rank holds for itself look so when they are right, and copies of one weight when they are "
        "not added up (partials-not-reduced) (3 of 3 steps)"
    )


def test_experts_that_are_not_divided_by_the_ranks_are_wrong_whatever_they_are(tmp_path):
    verdict = with_expert(tmp_path, 1.0, routed(), weights=apart)

    assert (verdict.outcome, names(verdict)) == ("wrong", ["expert-divisor-misses-ep", "partials-not-reduced"])
    assert [finding.parameters for finding in verdict.findings] == [["head.weight"]]


def test_negative_control_another_factor_is_no_experts(tmp_path):
    assert names(with_expert(tmp_path, 0.7, routed())) == ["partials-not-reduced"]


@pytest.mark.parametrize(
    "calls",
    [[], [routed(by="")], [routed(ranks=(0,))]],
    ids=["nothing", "by no function", "alone"],
)
def test_negative_control_without_an_exchange_of_units_they_lack_the_other_ranks(calls, tmp_path):
    verdict = with_expert(tmp_path, 0.5, *calls, weights=apart)

    assert verdict.outcome == "wrong"
    assert "replicas-start-different" in names(verdict)


def gathering() -> dict[str, Any]:
    """Activations that cross the ranks in another way, as where each rank picks its expert's units from a gather."""
    return routed(function="all_gather")


def test_experts_that_other_collectives_feed_are_not_accused_where_they_were_never_the_same(tmp_path):
    verdict = with_expert(tmp_path, 0.5, gathering(), weights=apart)

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert verdict.reasons == [call_words.dealt_out(["head.weight"])]


@pytest.mark.parametrize(("factor", "job"), [(0.5, {}), (1.0, {"weights": apart})], ids=["start equal", "times ranks"])
def test_negative_control_else_they_lack_the_other_ranks(factor, job, tmp_path):
    verdict = with_expert(tmp_path, factor, gathering(), **job)

    assert (verdict.outcome, "partials-not-reduced" in names(verdict)) == ("wrong", True)


# ---- experts of which there are copies


def copies_times(factor: float) -> Any:
    """Two pairs of ranks each step on the sum of their gradients of one parameter, all on that of the others."""

    def update(window: Any) -> Any:
        updates = window.combined(1 / 4)
        place = window.columns("head.weight")
        for pair in ((0, 2), (1, 3)):
            held = sum(window.gradients_RML[rank].sum(axis=0)[place] for rank in pair)
            for rank in pair:
                updates[rank, place] = factor * held
        return updates

    return update


def with_copies(folder: Any, factor: float, *calls: dict[str, Any]) -> Verdict:
    rest = on_gradients((0, 1, 2, 3), ["embed.weight", "layer.weight", "layer.bias"])

    def made(rank: int, _: int) -> list[dict[str, Any]]:
        return [rest, on_gradients((rank % 2, rank % 2 + 2), ["head.weight"]), *calls]

    return diagnose(with_calls(HandJob([[300]] * 4, copies_times(factor), weights=of_pairs), folder, made))


def of_pairs(first: Any, rank: int) -> Any:
    """The same weights on each pair."""
    first[-80:] += rank % 2
    return first


def test_copies_of_experts_with_the_factor_of_the_rest_are_not_accused(tmp_path):
    verdict = with_copies(tmp_path, 1 / 4, routed())

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    (reason,) = verdict.reasons
    assert reason == (
        "groups of ranks each step on their own gradients of head.weight, and units go to other ranks and back "
        "(all_to_all): experts, and the copies of each, look so when they are right, and copies of one weight when "
        "they are not added up over all ranks (partials-not-reduced) (3 of 3 steps)"
    )


def test_copies_of_experts_that_are_averaged_over_their_own_ranks_are_named(tmp_path):
    verdict = with_copies(tmp_path, 1 / 2, routed())

    assert (verdict.outcome, names(verdict)) == ("wrong", ["expert-divisor-misses-ep"])
    assert verdict.sentence == (
        "1 parameter is reduced over 2 of 4 ranks and gets 2 times the update of the rest, which is reduced over all: "
        "head.weight."
    )


@pytest.mark.parametrize(
    ("factor", "calls"), [(1 / 4, []), (0.2, [routed()])], ids=["nothing is exchanged", "another factor"]
)
def test_negative_control_else_groups_that_step_apart_are_wrong(factor, calls, tmp_path):
    verdict = with_copies(tmp_path, factor, *calls)

    assert verdict.outcome == "wrong"
    assert "replicas-start-different" in names(verdict)


# ---- models of their own


def test_ranks_without_a_common_parameter_are_not_judged_together():
    assert call_words.strangers([[0, 1], [2, 3]]) == (
        "ranks 0, 1 and ranks 2, 3 step on different parameters: they seem to train models of their own side by side; "
        "audit each of them alone"
    )


# ---- weights that are averaged


def averaged(**more: Any) -> dict[str, Any]:
    """All weights, all-reduced before the next forward."""
    return call(**{"ranks": (0, 1), "when": "before", "other_elements": 0, **more})


class _Averaged(HandJob):
    """A job whose ranks have the same weights before each step, whatever they stepped on."""

    def _step_numbers(self, window: Any, rank: int, weights: Any) -> Any:
        weights = np.random.default_rng(99).normal(size=len(weights)) - window.number
        return super()._step_numbers(window, rank, weights)


def test_ranks_that_average_their_weights_after_each_step_are_not_accused(tmp_path):
    job = _Averaged(TWO, own)
    verdict = diagnose(with_calls(job, tmp_path, lambda _, step: [averaged()] if step else []))

    assert (verdict.outcome, verdict.findings, verdict.reasons) == ("cannot tell", [], [words.LOCAL_SGD])


class _Apart(HandJob):
    """A job whose ranks never have the same weights."""

    def _step_numbers(self, window: Any, rank: int, weights: Any) -> Any:
        return super()._step_numbers(window, rank, weights + rank * min(window.number, 1))


@pytest.mark.parametrize("times", [1, 2])
def test_ranks_that_send_their_weights_to_others_between_the_steps_are_not_accused(times, tmp_path):
    sent = averaged(function="isend", own=False, elements=times * SIZE)
    verdict = diagnose(with_calls(_Apart(TWO, own), tmp_path, lambda _, step: [sent] if step else []))

    assert (verdict.outcome, verdict.findings, verdict.reasons) == ("cannot tell", [], [step_words.WEIGHTS_MIXED])


def test_negative_control_ranks_that_send_something_else_are(tmp_path):
    sent = averaged(function="isend", own=False, elements=SIZE - 1)

    assert names(diagnose(with_calls(_Apart(TWO, own), tmp_path, lambda *_: [sent]))) == ["never-synchronised"]


@pytest.mark.parametrize(
    "calls",
    [[], [averaged(elements=SIZE - 1)], [averaged(function="broadcast")], [averaged(by="Sum")], [averaged(ranks=(0,))]],
    ids=["nothing", "a part", "from one rank", "activations", "alone"],
)
def test_negative_control_equal_weights_alone_excuse_nothing(calls, tmp_path):
    assert names(diagnose(with_calls(_Averaged(TWO, own), tmp_path, lambda *_: calls))) == ["never-synchronised"]


def test_negative_control_weights_that_go_apart_are_averaged_by_nothing(tmp_path):
    verdict = diagnose(with_calls(HandJob(TWO, own), tmp_path, lambda *_: [averaged()]))

    assert names(verdict) == ["never-synchronised"]
