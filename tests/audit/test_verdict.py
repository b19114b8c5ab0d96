"""The verdict is a pure function of the traces: each kind of fault, written by hand, beside its right twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.judging import with_clips
from audit.traces import HandJob, Window, of_kind, write_records
from failuremap.audit import diagnose
from failuremap.audit.model import Verdict
from failuremap.audit.sentences import words
from failuremap.errors import TraceError

EVEN = [[300, 300], [300, 300]]
UNEVEN = [[400, 300], [100, 200]]
THREE = [[300, 300, 300], [300, 300, 300]]
DDP = {"wrappers": 1, "forwards": 1, "armed": 1, "synchronising": True}
RIGHT = "Every token weighs the same: the update is the mean over all tokens."


def slugs(verdict: Verdict) -> list[str]:
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def combined(coefficients: Any) -> Any:
    return lambda window: window.combined(coefficients)


def times(factor: float) -> Any:
    return lambda counts: np.full_like(counts, factor)


def share_of_all(counts: Any) -> Any:
    return counts / counts.sum()


def own(window: Window) -> Any:
    return window.gradients_RML.mean(axis=1)


def tail_is_local(window: Window) -> Any:
    first, later = window.gradients_RML[:, 0].mean(axis=0), window.gradients_RML[:, 1:].sum(axis=1)
    return (first[None] + later) / window.counts_RM.shape[1]


def local_in(name: str) -> Any:
    def update(window: Window) -> Any:
        result, columns = window.combined(1 / window.counts_RM.size), window.columns(name)
        result[:, columns] = own(window)[:, columns]
        return result

    return update


def with_the_step_before(window: Window) -> Any:
    return window.combined(1 / window.counts_RM.size) + (window.before.updates_RL if window.before else 0)


def the_step_before(window: Window) -> Any:
    return (window.before or window).combined(1 / window.counts_RM.size)


def nothing_of_it(window: Window) -> Any:
    one = np.random.default_rng(1000 + window.number).normal(size=window.gradients_RML.shape[2])
    return np.repeat(one[None], len(window.counts_RM), axis=0)


def ranks_apart(window: Window) -> Any:
    first, second = np.array([[1, 2], [1, 2]]) / 6, np.array([[2, 1], [1, 2]]) / 6
    return np.stack([window.combined(first)[0], window.combined(second)[1]])


def nan_on_rank_1(gradients: Any, _: int) -> Any:
    gradients[1] = np.nan
    return gradients


def zero_on_rank_1(gradients: Any, _: int) -> Any:
    gradients[1] = 0
    return gradients


def same_on_all_ranks(gradients: Any, _: int) -> Any:
    return np.repeat(gradients[:1], len(gradients), axis=0)


def short_last(full: int, last: int) -> list[Any]:
    return [np.full((2, full), 300)] * 3 + [np.full((2, last), 300)]


RIGHT_JOBS = {
    "equal counts": HandJob(EVEN),
    "divided by all units, summed over ranks": HandJob(UNEVEN, combined(1), share_of_all),
    "divided by all units, times the world, averaged": HandJob(
        UNEVEN, combined(0.5), lambda counts: 2 * counts / counts.sum()
    ),
    "one process that accumulates": HandJob([[400, 100]], combined(1), share_of_all),
    "one rank, one micro-batch": HandJob([[400]], combined(1)),
    "an empty rank that weighs nothing": HandJob([[300], [0]], combined([[1], [0]]), gradients=zero_on_rank_1),
    "a short last window": HandJob(
        short_last(4, 2), combined(0.5), lambda counts: np.full_like(counts, 1 / counts.shape[1]), steps=4
    ),
    "DDP": HandJob(EVEN, path=DDP),
    "eight by eight": HandJob(np.full((8, 8), 32)),
    "two steps": HandJob(UNEVEN, combined(1), share_of_all, steps=2),
}

# the fault, as its job; the mechanisms that leave this evidence; the sentence
FAULTS = {
    "counts ignored across ranks": (
        HandJob([[400], [100]]),
        ["replica-means-ignore-counts"],
        "A token on rank 1 weighs 4.00 times a token on rank 0.",
    ),
    "counts ignored across micro-batches": (
        HandJob([[400, 100]]),
        ["mean-of-microbatch-means"],
        "A token in micro-batch 1 weighs 4.00 times a token in micro-batch 0.",
    ),
    "counts ignored across both": (
        HandJob(UNEVEN),
        ["mean-of-microbatch-means", "replica-means-ignore-counts"],
        "A token on rank 1, micro-batch 0 weighs 4.00 times a token on rank 0, micro-batch 0.",
    ),
    "sum for mean": (
        HandJob([[300]] * 3, combined(1)),
        ["replicas-summed"],
        "The update is 3 times the mean over all tokens.",
    ),
    "sum over the window": (
        HandJob([[300] * 3], combined(1)),
        ["window-sum-not-mean"],
        "The update is 3 times the mean over all tokens.",
    ),
    "divided by the window twice": (
        HandJob([[300] * 3], combined(1), times(1 / 9)),
        ["divided-twice"],
        "The update is 0.333 times the mean over all tokens.",
    ),
    "averaged over the ranks twice": (
        HandJob([[300]] * 3, combined(1 / 9)),
        ["averaged-over-ranks-twice"],
        "The update is 0.333 times the mean over all tokens.",
    ),
    "times the world": (
        HandJob([[300]] * 3, combined(1 / 3), times(3)),
        ["compensation-without-cause"],
        "The update is 3 times the mean over all tokens.",
    ),
    "divided by all units, averaged again": (
        HandJob([[300], [100], [200]], combined(1 / 3), share_of_all),
        ["global-denominator-averaged-again"],
        "The update is 0.333 times the mean over all tokens.",
    ),
    "reduced again and again": (
        HandJob(THREE, combined(np.array([4, 2, 1]) / 2), times(1 / 3)),
        ["reduced-again"],
        "A token in micro-batch 0 weighs 4.00 times a token in micro-batch 2.",
    ),
    "the last micro-batch alone": (
        HandJob(THREE, combined([0, 0, 0.5]), keeps=False),
        ["accumulator-overwritten"],
        "Only the last of 3 micro-batches reaches the update.",
    ),
    "the first micro-batch alone": (
        HandJob(THREE, combined([0.5, 0, 0])),
        ["only-first-microbatch-kept"],
        "Only the first of 3 micro-batches reaches the update.",
    ),
    "a micro-batch dropped": (
        HandJob(THREE, combined([0.25, 0, 0.25])),
        ["microbatch-dropped"],
        "Micro-batch 1 of 3 never reaches the update.",
    ),
    "a rank dropped": (
        HandJob([[300]] * 3, combined([[0.5], [0], [0.5]])),
        ["rank-dropped"],
        "The gradient of rank 1 never reaches the update.",
    ),
    "the first rank broadcast": (
        HandJob([[300]] * 3, combined([[1], [0], [0]])),
        ["first-rank-broadcast"],
        "All ranks step on one rank's gradient alone: the others never reach the update.",
    ),
    "never synchronised": (
        HandJob(EVEN, own),
        ["never-synchronised"],
        "Each rank steps on its own gradient alone: the ranks are never added up.",
    ),
    "wrapper bypassed": (
        HandJob(EVEN, own, path={**DDP, "forwards": 0, "armed": 0}),
        ["reducer-bypassed"],
        "Each rank steps on its own gradient alone: the ranks are never added up.",
    ),
    "forward outside the sync context": (
        HandJob(EVEN, own, path={**DDP, "armed": 0}),
        ["forward-outside-sync-context"],
        "Each rank steps on its own gradient alone: the ranks are never added up.",
    ),
    "no_sync for ever": (
        HandJob(EVEN, own, path={**DDP, "armed": 0, "synchronising": False}),
        ["never-synchronised"],
        "Each rank steps on its own gradient alone: the ranks are never added up.",
    ),
    "synchronised at the wrong micro-batch": (
        HandJob(EVEN, tail_is_local),
        ["sync-on-wrong-microbatch"],
        "The micro-batches after the synchronised one stay on their own rank.",
    ),
    "one parameter without a hook": (
        HandJob(EVEN, local_in("head.weight")),
        ["param-without-hook"],
        "1 of 4 parameters are never added up over the ranks: head.weight.",
    ),
    "one small parameter without a hook": (
        HandJob(EVEN, local_in("layer.bias")),
        ["param-without-hook"],
        "1 of 4 parameters are never added up over the ranks: layer.bias.",
    ),
    "no zero_grad": (
        HandJob(EVEN, with_the_step_before),
        ["stale-gradient-leaks"],
        "The previous step's gradient is in the update again, 1 times: it was not zeroed.",
    ),
    "the gradient of the step before": (
        HandJob(EVEN, the_step_before),
        ["previous-gradient-applied"],
        "The update is the previous step's gradient, 1 times.",
    ),
    "a mean over nothing that is nan": (
        HandJob([[300], [0]], lambda window: window.combined(np.nan), gradients=nan_on_rank_1),
        ["zero-total"],
        "The update is not finite: rank 1, micro-batch 0 has no token, and its mean over nothing is nan.",
    ),
    "a mean over nothing that is 0": (
        HandJob([[300], [0]], combined(0.5), gradients=zero_on_rank_1),
        ["divisor-counts-idle-parts", "global-denominator-averaged-again", "replica-means-ignore-counts"],
        (
            "Rank 1, micro-batch 0 has no token and takes its share of the mean: "
            "the update is 0.5 times the mean over all tokens."
        ),
    ),
    "a short window divided by the full one": (
        HandJob(short_last(3, 1), combined(0.5), times(1 / 3), steps=4),
        ["partial-window-full-divisor"],
        "The update is 0.333 times the mean over all tokens.",
    ),
    "the same data on all ranks": (
        HandJob(EVEN, gradients=same_on_all_ranks),
        ["same-data-on-all-ranks"],
        "All ranks compute the same gradient.",
    ),
    "other weights at the start": (
        HandJob(EVEN, weights=lambda weights, rank: weights + rank),
        ["replicas-start-different"],
        (
            "The ranks do not start from the same weights: 4 of 4 parameters differ "
            "(embed.weight, layer.weight, layer.bias and 1 more)."
        ),
    ),
    "ranks that step on different combinations": (
        HandJob(EVEN, ranks_apart),
        [],
        (
            "The ranks step on different updates: coefficients 0.1667 0.3333 0.1667 0.3333 on one, "
            "0.3333 0.1667 0.1667 0.3333 on another."
        ),
    ),
}


@pytest.mark.parametrize("name", RIGHT_JOBS)
def test_a_right_job_is_right(name, tmp_path):
    verdict = diagnose(RIGHT_JOBS[name].write(tmp_path))

    assert (verdict.outcome, verdict.sentence, verdict.findings, verdict.reasons) == ("right", RIGHT, [], [])


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_at_every_step(name, tmp_path):
    job, expected, sentence = FAULTS[name]

    verdict = diagnose(job.write(tmp_path))

    assert (verdict.outcome, slugs(verdict), verdict.sentence) == ("wrong", expected, sentence)
    assert verdict.findings[0].steps[-1] == job.steps


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["counts ignored across both", "a rank dropped", "no zero_grad", "never synchronised"])
def test_a_fault_is_named_whatever_the_data(name, seed, tmp_path):
    job, expected, _ = FAULTS[name]
    again = HandJob(**{**vars(job), "seed": seed + 1})

    assert slugs(diagnose(again.write(tmp_path))) == expected


def test_a_verdict_can_be_repeated(tmp_path):
    folder = HandJob(UNEVEN).write(tmp_path)

    assert diagnose(folder) == diagnose(folder)


def test_the_order_of_the_ranks_does_not_matter(tmp_path):
    job = HandJob(UNEVEN, combined(1), share_of_all)
    records = job.records()
    for rank, mine in enumerate(reversed(records)):
        write_records(tmp_path, rank, [({**mine[0][0], "rank": rank}, None), *mine[1:]])

    verdict = diagnose(tmp_path)

    assert verdict.outcome == "right"
    assert [cell.count for cell in verdict.cells] == [100, 200, 400, 300]


def test_the_cells_hold_what_a_unit_weighs(tmp_path):
    verdict = diagnose(HandJob([[400], [100]]).write(tmp_path))

    assert [(cell.rank, cell.micro_batch, cell.count) for cell in verdict.cells] == [(0, 0, 400), (1, 0, 100)]
    assert [cell.coefficient for cell in verdict.cells] == pytest.approx([0.5, 0.5])
    assert [cell.share for cell in verdict.cells] == pytest.approx([0.625, 2.5])
    assert verdict.findings[0].ratio == pytest.approx(4)
    assert verdict.findings[0].total_weight == pytest.approx(1)


def test_a_step_that_goes_wrong_once_is_found_and_dated(tmp_path):
    counts = [np.full((2, 1), 300)] * 3 + [np.array([[300], [290]])]

    verdict = diagnose(HandJob(counts, steps=4).write(tmp_path))

    assert (verdict.outcome, verdict.findings[0].steps) == ("wrong", [4])
    assert verdict.sentence == "A token on rank 1 weighs 1.034 times a token on rank 0."


def test_a_skew_of_two_per_cent_is_seen(tmp_path):
    assert diagnose(HandJob([[306], [300]]).write(tmp_path)).outcome == "wrong"


def test_a_skew_of_two_per_cent_in_bfloat16_is_never_called_right(tmp_path):
    outcomes = set()
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcomes.add(diagnose(HandJob([[306], [300]], dtype="bfloat16", seed=seed, steps=2).write(folder)).outcome)

    assert "right" not in outcomes


def test_a_right_job_in_bfloat16_accuses_nobody(tmp_path):
    verdict = diagnose(HandJob(UNEVEN, combined(1), share_of_all, dtype="bfloat16").write(tmp_path))

    assert verdict.findings == []


def test_the_sum_is_right_where_it_is_promised(tmp_path):
    folder = HandJob(UNEVEN, combined(1), lambda counts: counts).write(tmp_path)

    assert (
        diagnose(folder, promise="sum").sentence
        == "Every token weighs the same: the update is the sum over all tokens."
    )
    assert diagnose(folder, promise="sum").outcome == "right"
    assert diagnose(folder, promise="mean").outcome == "wrong" or diagnose(folder, promise="mean").notes != []


def test_partial_sums_that_are_averaged_are_named(tmp_path):
    folder = HandJob(UNEVEN, combined(0.5), lambda counts: counts).write(tmp_path)

    verdict = diagnose(folder, promise="sum")

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["partials-averaged"])
    assert verdict.sentence == "The update is 0.5 times the sum over all tokens."


def test_equal_counts_are_noted_because_they_prove_little(tmp_path):
    assert diagnose(HandJob(EVEN).write(tmp_path)).notes == [
        (
            "all counts were equal: a rule that ignores counts would look the same; "
            "audit batches of different token counts, too"
        )
    ]


def test_counts_that_differ_need_no_note(tmp_path):
    assert diagnose(HandJob(UNEVEN, combined(1), share_of_all).write(tmp_path)).notes == []


def test_a_factor_that_no_rule_explains_is_a_note(tmp_path):
    verdict = diagnose(HandJob(EVEN, combined(0.37 / 4)).write(tmp_path))

    assert verdict.findings == []
    assert verdict.notes[0] == (
        "cross_entropy(mean) at train.py:41: every unit weighs the same, "
        "with a factor of the script's own (or clipping) (3 of 3 steps)"
    )


@pytest.mark.parametrize(("factor", "noted"), [(1.05, True), (0.95, True), (1.003, False)])
def test_a_total_more_than_one_per_cent_off_is_noted(factor, noted, tmp_path):
    job = HandJob(UNEVEN, combined(factor), share_of_all)

    assert (diagnose(job.write(tmp_path)).notes != []) is noted


# ---- clipping


def test_a_clip_of_the_whole_gradient_is_no_factor(tmp_path):
    verdict = diagnose(with_clips(HandJob(EVEN, combined(0.25 / 4)), tmp_path, [4.0, 4.0]))

    assert (verdict.outcome, verdict.notes[0].startswith("all counts were equal")) == ("right", True)


def test_a_clip_of_each_rank_by_its_own_norm_is_a_fault(tmp_path):
    job = HandJob([[300], [300]], combined([[0.5 / 4], [0.5 / 2]]))

    verdict = diagnose(with_clips(job, tmp_path, [4.0, 2.0]))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["clip-in-wrong-place"])
    assert verdict.sentence == (
        "Each rank clips its own gradient before the ranks are added up: factors 0.25 on rank 0, 0.5 on rank 1."
    )


# ---- what was not seen


def edited(job: HandJob, folder: Path, rank: int, edit: Any) -> Path:
    """Writes a job, one rank's records edited."""
    for here, records in enumerate(job.records()):
        write_records(folder, here, edit(records) if here == rank else records)
    return folder


def test_a_rank_without_a_trace_is_named(tmp_path):
    folder = HandJob(EVEN).write(tmp_path)
    (folder / "rank00001-1.trace").unlink()

    verdict = diagnose(folder)

    assert verdict.outcome in ("cannot tell", "not measured")
    assert verdict.reasons[0] == "rank 1 left no trace"


def test_a_trace_without_an_end_is_never_called_right(tmp_path):
    verdict = diagnose(edited(HandJob(EVEN), tmp_path, 1, lambda records: records[:-1]))

    assert (verdict.outcome, verdict.sentence) == (
        "cannot tell",
        "Cannot tell whether the gradients are added up right.",
    )
    assert verdict.reasons == [
        (
            "rank 1 did not come to its end (killed, os._exit, or the disk was full): its trace has no end, "
            "so what it did last was not seen"
        )
    ]


def test_a_fault_is_found_in_a_trace_without_an_end(tmp_path):
    verdict = diagnose(edited(HandJob([[400], [100]]), tmp_path, 1, lambda records: records[:-1]))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["replica-means-ignore-counts"])


@pytest.mark.parametrize("lost", [1, 7, 100])
def test_a_torn_trace_is_never_called_right_and_says_where(lost, tmp_path):
    path = HandJob(EVEN).write(tmp_path) / "rank00001-1.trace"
    path.write_bytes(path.read_bytes()[:-lost])

    verdict = diagnose(tmp_path)

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0].startswith("the trace of rank 1 is torn: rank00001-1.trace is cut off at byte ")


def test_no_cut_makes_a_right_verdict(tmp_path):
    small = HandJob([[300], [300]], shapes={"w": (16,)}, steps=2)
    path = small.write(tmp_path) / "rank00001-1.trace"
    whole = path.read_bytes()
    assert diagnose(tmp_path).outcome == "right"

    outcomes = set()
    for size in range(16, len(whole), 13):
        path.write_bytes(whole[:size])
        outcomes.add(diagnose(tmp_path).outcome)

    assert outcomes <= {"cannot tell", "not measured"}


def test_nothing_at_all_is_not_measured(tmp_path):
    verdict = diagnose(tmp_path)

    assert (verdict.outcome, verdict.sentence) == ("not measured", "Nothing was measured.")
    assert verdict.reasons == ["no process of the job recorded anything: no gradient and no optimizer step was seen"]


def test_a_job_that_never_steps_is_not_measured(tmp_path):
    def without_steps(records):
        return [record for record in records if record[0]["kind"] != "step"]

    folder = edited(HandJob([[300]]), tmp_path, 0, without_steps)

    verdict = diagnose(folder)

    assert (verdict.outcome, verdict.sentence) == (
        "not measured",
        "Nothing was measured: no optimizer step was seen.",
    )
    assert verdict.reasons == [
        (
            "no optimizer step was seen: the audit watches torch.optim.Optimizer and its subclasses; does the script "
            "reach step(), or change its weights without one?"
        )
    ]


def test_a_job_that_never_steps_accuses_nobody_of_weights_that_end_apart(tmp_path):
    def without_steps(records):
        return [record for record in records if record[0]["kind"] != "step"]

    job = HandJob([[300], [300]], weights=lambda weights, rank: weights + rank)
    for rank, records in enumerate(job.records()):
        write_records(tmp_path, rank, without_steps(records))

    verdict = diagnose(tmp_path)

    assert (verdict.outcome, verdict.findings) == ("not measured", [])
    assert verdict.reasons[1] == (
        "at the end the ranks hold different weights (embed.weight, head.weight, layer.bias and 1 more): where they "
        "are copies of one model, something keeps them apart"
    )


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(TraceError, match="does not exist"):
        diagnose(tmp_path / "nowhere")


def test_a_rank_that_ends_a_step_early_leaves_the_last_step_open(tmp_path):
    def one_step_less(records):
        return [*records[: of_kind(records, "step")[-2] + 1], records[-1]]

    verdict = diagnose(edited(HandJob(EVEN, steps=4), tmp_path, 1, one_step_less))

    assert slugs(verdict) == []
    assert "step 4 could not be told: rank 1 took no part in it" in verdict.notes


def test_a_rank_that_takes_part_in_few_steps_is_never_called_right(tmp_path):
    def one_step(records):
        return [*records[: of_kind(records, "step")[0] + 1], records[-1]]

    verdict = diagnose(edited(HandJob(EVEN, steps=4), tmp_path, 1, one_step))

    assert verdict.outcome != "right"
    assert "rank 1 took no part in it (3 of 4 steps)" in verdict.reasons


def test_a_rank_that_skips_a_step_is_never_called_right(tmp_path):
    def skip(records):
        skipped = of_kind(records, "step")[1]
        return [record for place, record in enumerate(records) if place != skipped]

    verdict = diagnose(edited(HandJob(EVEN, steps=4), tmp_path, 1, skip))

    assert verdict.outcome != "right"


def with_fields(kind: str, **fields: Any) -> Any:
    """An edit that changes fields of all records of a kind."""
    return lambda records: [
        ({**told, **fields} if told["kind"] == kind else told, numbers) for told, numbers in records
    ]


def test_parameters_that_are_not_watched_are_not_measured(tmp_path):
    verdict = diagnose(edited(HandJob([[300]]), tmp_path, 0, with_fields("step", unwatched=["DTensor"])))

    assert verdict.outcome == "not measured"
    assert verdict.reasons == ["parameters or gradients of type DTensor are not watched (3 of 3 steps)"]


def test_a_loss_that_was_not_seen_is_not_measured(tmp_path):
    verdict = diagnose(edited(HandJob([[300]]), tmp_path, 0, with_fields("backward", losses=[], unseen=["Gather"])))

    assert (verdict.outcome, verdict.findings) == ("not measured", [])
    assert verdict.reasons == [
        (
            "the loss was not seen (backward went through Gather): no loss function of torch.nn.functional made it. "
            "One line makes it seen: failuremap.unit_losses(loss_per_token) or failuremap.count(tokens, loss); "
            "or compare with one process: --reference ref.py:objective, in ref.py:  "
            "def objective(model, batch): return loss_sum, count (3 of 3 steps)"
        )
    ]


def test_a_term_that_was_not_seen_is_not_measured(tmp_path):
    verdict = diagnose(edited(HandJob([[300]]), tmp_path, 0, with_fields("backward", unseen=["Gather"])))

    assert verdict.outcome == "not measured"
    assert verdict.reasons == [
        (
            "in 1 of 1 backward passes a term of the loss was not seen (Gather); "
            "mark it with failuremap.unit_losses(losses) or failuremap.count(units, loss) (3 of 3 steps)"
        )
    ]


def test_counts_whose_scale_was_not_seen_are_open(tmp_path):
    def said(number):
        return with_fields("backward", losses=[], unseen=["Gather"], counts=[number])

    records = HandJob([[1], [1]], combined(1.0)).records()
    for rank, number in enumerate([400, 100]):
        write_records(tmp_path, rank, said(number)(records[rank]))

    verdict = diagnose(tmp_path)

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert verdict.reasons == [f"{words.scale_not_seen()} (3 of 3 steps)"]


def test_gradients_that_came_another_way_are_not_measured(tmp_path):
    def another_way(records):
        """The third parameter has an update, and no gradient."""
        found = []
        for fields, numbers in records:
            if fields["kind"] == "backward":
                found.append(({**fields, "parameters": fields["parameters"][:-1]}, numbers[:-80]))
            else:
                found.append((fields, numbers))
        return found

    verdict = diagnose(edited(HandJob([[300]]), tmp_path, 0, another_way))

    assert verdict.outcome == "not measured"
    assert verdict.reasons == [
        "1 parameters were stepped on gradients that did not come through autograd (head.weight) (3 of 3 steps)"
    ]


def test_gradients_that_are_not_finite_with_units_behind_them_accuse_nobody(tmp_path):
    job = HandJob(EVEN, lambda window: window.combined(np.nan), gradients=nan_on_rank_1)

    verdict = diagnose(job.write(tmp_path))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert verdict.reasons == ["the gradients were not finite (nan or inf) (3 of 3 steps)"]


def test_an_update_that_is_no_combination_accuses_nobody_and_is_not_right(tmp_path):
    verdict = diagnose(HandJob(EVEN, nothing_of_it).write(tmp_path))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert verdict.reasons == [
        (
            "the update of 4 of 4 parameters (embed.weight, layer.weight, layer.bias and 1 more) is no combination of "
            "the gradients that backward computed: something else changes it before the step (3 of 3 steps)"
        )
    ]


def test_a_lossy_communication_hook_is_called_lossy(tmp_path):
    hooked = {**DDP, "hooks": ["powerSGD_hook"]}

    verdict = diagnose(HandJob(EVEN, nothing_of_it, path=hooked).write(tmp_path))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert verdict.reasons[0].endswith(
        "backward computed: the communication hook powerSGD_hook is lossy (3 of 3 steps)"
    )


def test_what_the_audit_failed_to_see_is_never_called_right(tmp_path):
    verdict = diagnose(edited(HandJob([[300]]), tmp_path, 0, with_fields("end", errors=["on_loss: KeyError: 'x'"])))

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons == ["the audit itself failed to see a part of the job: on_loss: KeyError: 'x'"]


def test_what_went_wrong_beside_the_measurement_is_a_note(tmp_path):
    verdict = diagnose(edited(HandJob([[300]]), tmp_path, 0, with_fields("end", errors=["on_module: KeyError: 'x'"])))

    assert verdict.outcome == "right"
    assert verdict.notes == ["the audit itself met 1 errors, the first: on_module: KeyError: 'x'"]


def test_communication_hooks_and_absent_gradients_are_said(tmp_path):
    def told(records):
        return with_fields("end", comm_hooks=["fp16"])(with_fields("step", absent=["spare.weight"])(records))

    notes = diagnose(edited(HandJob([[300]]), tmp_path, 0, told)).notes

    assert "communication hook: fp16" in notes
    assert "1 parameter had no gradient at some step: spare.weight" in notes


def test_replicas_that_drift_apart_at_the_end_are_a_fault(tmp_path):
    def drifted(records):
        return [*records[:-1], (records[-1][0], records[-1][1] + 1)]

    verdict = diagnose(edited(HandJob(EVEN), tmp_path, 1, drifted))

    assert (verdict.outcome, verdict.findings[0].steps) == ("wrong", [])
    assert verdict.sentence == (
        "The ranks no longer hold the same weights at the end: 4 of 4 parameters differ "
        "(embed.weight, head.weight, layer.bias and 1 more)."
    )


def test_the_unit_is_the_one_of_the_header_unless_it_is_given(tmp_path):
    folder = HandJob([[300]], unit="example").write(tmp_path)

    assert diagnose(folder).sentence == "Every example weighs the same: the update is the mean over all examples."
    assert diagnose(folder, unit="token").unit == "token"


def test_sequences_that_cannot_be_counted_are_not_measured(tmp_path):
    verdict = diagnose(HandJob([[300]]).write(tmp_path), unit="sequence")

    assert verdict.outcome == "not measured"
    assert verdict.reasons == [
        (
            "sequences cannot be counted at cross_entropy (train.py:41): its targets came as one flat row. "
            "Say their number with failuremap.count(sequences, loss), or audit with --unit token (3 of 3 steps)"
        )
    ]


def test_a_rank_whose_trace_is_empty_is_a_reason_and_no_error(tmp_path):
    folder = HandJob([[300], [300]]).write(tmp_path)
    (folder / "rank00001-1.trace").write_bytes(b"")

    assert diagnose(folder).outcome in ("cannot tell", "not measured")
