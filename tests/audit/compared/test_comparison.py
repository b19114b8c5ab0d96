"""Jobs beside one process, all numbers by hand: what the comparison settles, finds, leaves open, and can't refute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.traces import HandJob, Window, mean_of_means, rows, write_records
from failuremap.audit import diagnose
from failuremap.audit.launch.reference import FAILED, GRADIENTS
from failuremap.audit.model import Verdict
from failuremap.audit.sentences import reference_words
from failuremap.audit.trace import TraceWriter

UNEVEN = ((300, 100), (50, 412))
TYPE = "float32 x 1.1"


def of_sums(window: Window) -> Any:
    """What one process would compute: gradients of sums, where those of the job are of means."""
    return window.gradients_RML * window.counts_RM[:, :, None]


def refer(
    job: HandJob,
    folder: Path,
    gradients: Callable[[Window], Any] = of_sums,
    units: Callable[[Window], Any] = lambda window: window.counts_RM,
    dtypes: dict[str, str] | None = None,
    *,
    ends: bool = True,
    times: float = 1.0,
) -> Path:
    """Writes what a reference run leaves for the first two windows of a job; its losses are so many times the job's."""
    writer = TraceWriter(folder / GRADIENTS)
    writer.write({"kind": "reference", "file": "ref.py", "function": "objective"})
    for id, (name, shape) in enumerate(job.shapes.items()):
        fields = {"kind": "parameter", "id": id, "name": name, "rank": None, "shape": shape, "rows": rows(shape)}
        writer.write({**fields, "dtype": (dtypes or {}).get(name, TYPE)})
    for window in job.windows()[:2]:
        ranks, micro_batches = window.counts_RM.shape
        for rank, batch in np.ndindex(ranks, micro_batches):
            fields = {"kind": "contribution", "optimizer": 0, "count": window.number}
            fields |= {
                "members": [[rank, window.number * micro_batches + batch]],
                "parameters": [*range(len(job.shapes))],
            }
            fields["units"] = float(units(window)[rank, batch])
            fields |= {"loss": times * 3.0 * window.counts_RM[rank, batch], "job_losses": [3.0]}
            writer.write(fields, gradients(window)[rank, batch])
    if ends:
        writer.write({"kind": "end"})
    writer.close()
    return folder


def beside(job: HandJob, folder: Path, *args: Any, **kwargs: Any) -> Verdict:
    """The verdict on a job with a reference."""
    return diagnose(refer(job, job.write(folder), *args, **kwargs))


def slugs(verdict: Verdict) -> list[str]:
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


def changed(name: str, factor: float) -> Callable[[Window], Any]:
    """The reference's gradients with those of one parameter times a factor."""

    def gradients(window: Window) -> Any:
        found = of_sums(window).copy()
        found[:, :, window.columns(name)] *= factor
        return found

    return gradients


def other(name: str, size: float) -> Callable[[Window], Any]:
    """The reference's gradients with something else added to those of a parameter, so large; '' for all of them."""

    def gradients(window: Window) -> Any:
        found = of_sums(window).copy()
        columns = window.columns(name) if name else slice(None)
        noise = np.random.default_rng(5).normal(size=found[:, :, columns].shape)
        found[:, :, columns] *= 1 + size * noise
        return found

    return gradients


def counted(window: Window) -> Any:
    """Means weighted by their counts: right."""
    return window.combined(window.counts_RM / window.counts_RM.sum())


def unseen(job: HandJob, folder: Path) -> Path:
    """The traces of a job whose losses no watched function made."""
    for rank, records in enumerate(job.records()):
        hidden = [
            ({**fields, "losses": [], "unseen": ["Pow"]} if fields["kind"] == "backward" else fields, numbers)
            for fields, numbers in records
        ]
        write_records(folder, rank, hidden)
    return folder


def test_a_right_job_that_agrees_is_right_and_says_what_was_compared(tmp_path):
    verdict = beside(HandJob(), tmp_path)

    assert verdict.outcome == "right"
    assert verdict.notes[0].startswith(
        "steps 1, 2 were compared with one process on the same batches, on 4 parameters; "
    )


def test_a_wrong_job_is_told_as_the_audit_alone_tells_it(tmp_path):
    job = HandJob(counts=UNEVEN)
    alone = diagnose(job.write(tmp_path))

    verdict = diagnose(refer(job, tmp_path))

    assert alone.outcome == "wrong"
    assert (verdict.sentence, slugs(verdict)) == (alone.sentence, slugs(alone))
    assert verdict.findings[0].steps == [1, 2, 3]


def test_gradients_that_were_cleared_and_are_in_the_update_all_the_same_are_compared(tmp_path):
    verdict = beside(HandJob(update=counted, counts=UNEVEN, keeps=False), tmp_path)

    assert (verdict.outcome, verdict.reasons) == ("right", [])


def test_where_it_cannot_be_told_whether_gradients_are_lost_nothing_is_compared(tmp_path):
    verdict = beside(HandJob(keeps=False, steps=1), tmp_path)

    assert verdict.outcome == "cannot tell"
    why = "the gradients of 1 backward pass were cleared before a step"
    assert any(reason.startswith(f"no step was compared with one process: {why}") for reason in verdict.reasons)


@pytest.mark.parametrize(("counts", "outcome"), [(((412, 412), (412, 412)), "right"), (UNEVEN, "wrong")])
def test_a_loss_that_was_not_seen_is_weighed_by_the_reference(counts, outcome, tmp_path):
    job = HandJob(counts=counts)
    unseen(job, tmp_path)
    alone = diagnose(tmp_path)

    verdict = diagnose(refer(job, tmp_path))

    assert (alone.outcome, verdict.outcome) == ("not measured", outcome)


def test_a_gradient_that_was_wrong_before_it_was_added_up_is_found(tmp_path):
    job = HandJob()
    alone = diagnose(job.write(tmp_path))

    verdict = diagnose(refer(job, tmp_path, other("layer.weight", 0.5)))

    assert alone.outcome == "right"
    assert verdict.outcome == "wrong"
    assert verdict.findings[0].parameters == ["layer.weight"]
    assert verdict.sentence.startswith(
        "The update of one parameter differs from that of a single process: layer.weight by "
    )


def test_a_factor_is_told_as_a_factor(tmp_path):
    verdict = beside(HandJob(), tmp_path, changed("layer.bias", 0.5))

    assert verdict.sentence == "layer.bias: the update is 2.00 times that of a single process."


def test_two_parameters_of_one_factor_are_told_together(tmp_path):
    def gradients(window):
        found = changed("layer.bias", 0.25)(window)
        found[:, :, window.columns("head.weight")] *= 0.25
        return found

    verdict = beside(HandJob(), tmp_path, gradients)

    assert verdict.sentence == ("2 parameters get 4.00 times the update of a single process: head.weight, layer.bias.")


def test_an_update_without_a_gradient_in_one_process_is_a_question(tmp_path):
    job = HandJob(counts=((412,), (412,)))
    job.write(tmp_path)
    smaller = HandJob(counts=job.counts, shapes={name: job.shapes[name] for name in list(job.shapes)[:3]})

    def gradients(window):
        return of_sums(job.windows()[window.number])[:, :, : window.starts[3]]

    verdict = diagnose(refer(smaller, tmp_path, gradients))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert verdict.reasons[0] == (
        "head.weight: the job has an update, and a single process has no gradient: does the objective lack a term of "
        "the loss? (2 of 3 steps)"
    )


@pytest.mark.parametrize(
    ("gradients", "times", "outcome"),
    [
        (other("layer.weight", 0.5), 1.0, "wrong"),
        (other("layer.weight", 0.5), 1.005, "wrong"),
        (other("layer.weight", 0.5), 0.8, "cannot tell"),
        (other("", 0.5), 1.0, "wrong"),
        (other("", 0.5), 1.005, "cannot tell"),
        (of_sums, 0.8, "right"),
    ],
    ids=["one", "one, rounded", "one, another loss", "all", "all, another loss", "none"],
)
def test_what_another_loss_gives_accuses_nobody(gradients, times, outcome, tmp_path):
    verdict = beside(HandJob(counts=((412,), (100,)), update=counted), tmp_path, gradients, times=times)

    assert verdict.outcome == outcome
    if outcome == "cannot tell":
        assert verdict.reasons[0] == f"{reference_words.OTHER_LOSS} (2 of 3 steps)"
        assert f"step 1: the objective's loss is {times} times the job's. The update" in " ".join(verdict.notes)


def test_a_factor_on_everything_is_judged_as_a_total(tmp_path):
    def gradients(window):
        return 0.5 * of_sums(window)

    assert beside(HandJob(), tmp_path, gradients).sentence == "The update is 2 times the mean over all tokens."


def test_what_bfloat16_would_explain_is_not_told_and_accuses_nobody(tmp_path):
    verdict = beside(HandJob(), tmp_path, other("", 0.01))

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0].startswith("4 parameters differ from one process by ")


def test_in_bfloat16_the_same_is_right(tmp_path):
    dtypes = dict.fromkeys(HandJob().shapes, "bfloat16 x 1.1")
    counts = ((412,), (412,))

    assert beside(HandJob(counts=counts), tmp_path, other("", 0.001), dtypes=dtypes).outcome == "right"


def test_a_gradient_that_is_rounding_alone_is_left_out_and_told(tmp_path):
    verdict = beside(HandJob(), tmp_path, other("layer.bias", 3.0), dtypes={"layer.bias": "float32 x inf"})

    assert verdict.outcome == "right"
    assert reference_words.noise(["layer.bias"]) in verdict.notes
    assert "on 3 parameters" in verdict.notes[0]


def test_what_the_reference_counts_otherwise_is_right_by_its_count(tmp_path):
    """Each contribution is one sequence, of unequal tokens: means of sequences are what is promised."""
    job = HandJob(counts=UNEVEN)

    verdict = beside(job, tmp_path, lambda w: w.gradients_RML, lambda w: np.ones_like(w.counts_RM))

    assert verdict.outcome == "right"


def test_the_same_data_on_all_ranks_stays_a_finding(tmp_path):
    def alike(gradients, _):
        return np.repeat(gradients[:1], len(gradients), axis=0)

    job = HandJob(counts=((412,), (412,)), gradients=alike)
    alone = diagnose(job.write(tmp_path))

    verdict = diagnose(refer(job, tmp_path))

    assert "same-data-on-all-ranks" in slugs(alone)
    assert "same-data-on-all-ranks" in slugs(verdict)


def test_a_pass_without_a_batch_leaves_it_untold(tmp_path):
    job = HandJob()
    refer(HandJob(counts=((412,), (412,))), job.write(tmp_path))

    verdict = diagnose(tmp_path)

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0] == (
        "no step was compared with one process: no batch was kept of backward pass 1 on rank 0, which step 1 holds"
    )


DIFFERENT = (
    "the ranks hold different weights of embed.weight, layer.weight, layer.bias and 1 more, and one process holds one; "
    "where each rank has a part of it, experts for one, say along which dimension:  shards = {'name': 0}"
)


def test_a_step_that_begins_with_other_weights_on_a_rank_is_not_compared(tmp_path):
    job = HandJob(counts=((412,), (412,)), update=lambda window: window.gradients_RML[:, 0])

    verdict = beside(job, tmp_path)

    assert verdict.outcome == "wrong"
    assert any(note.startswith("step 1 was compared with one process") for note in verdict.notes)
    assert verdict.reasons[0] == f"step 2 was not compared with one process: {DIFFERENT}"


def test_ranks_that_start_from_other_weights_are_not_compared_at_all(tmp_path):
    verdict = beside(HandJob(weights=lambda weights, rank: weights + rank), tmp_path)

    assert verdict.reasons[0] == f"no step was compared with one process: {DIFFERENT}"


def test_another_shape_leaves_it_untold(tmp_path):
    job = HandJob()
    job.write(tmp_path)
    smaller = HandJob(shapes={**job.shapes, "layer.bias": (7,)})

    verdict = diagnose(refer(smaller, tmp_path))

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0].endswith(
        "parameter 'layer.bias' has another shape in the job than in the reference's model"
    )


@pytest.mark.parametrize(("size", "outcome"), [(1.0, "wrong"), (0.0, "right")])
def test_a_gradient_that_never_reaches_the_optimizer_is_found(size, outcome, tmp_path):
    job, whole = HandJob(), HandJob(shapes={**HandJob().shapes, "gate": (4,)})
    for rank, records in enumerate(job.records()):
        told = [({**f, "absent": ["gate"]} if f["kind"] == "step" else f, numbers) for f, numbers in records]
        write_records(tmp_path, rank, told)

    def gradients(window):
        own = job.windows()[window.number]
        return np.concatenate([of_sums(own), size * np.ones((2, 2, 4))], axis=2)

    verdict = diagnose(refer(whole, tmp_path, gradients))

    assert verdict.outcome == outcome
    told = ["gate: no gradient reaches the optimizer, and one does in a single process."]
    assert [finding.sentence for finding in verdict.findings] == (told if size else [])


@pytest.mark.parametrize(("counts", "outcome"), [(((412, 412), (412, 412)), "cannot tell"), (UNEVEN, "wrong")])
def test_a_refusal_is_a_reason_and_excuses_nothing(counts, outcome, tmp_path):
    HandJob(counts=counts).write(tmp_path)
    (tmp_path / FAILED).write_text("its process exited with code 9")

    verdict = diagnose(tmp_path)

    assert verdict.outcome == outcome
    assert verdict.reasons == [
        "no step was compared with one process: the reference run failed: its process exited with code 9"
    ]


def test_a_reference_run_that_did_not_end_is_told(tmp_path):
    verdict = beside(HandJob(), tmp_path, ends=False)

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0].endswith("the reference run failed: it did not come to its end")


def test_parts_of_a_parameter_are_compared_rank_by_rank(tmp_path):
    """Each rank steps on its own part of head.weight, as a layer split by hand has it."""
    job = HandJob(counts=((412,), (412,)), update=_own_parts, steps=2)
    job.write(tmp_path)
    writer = TraceWriter(tmp_path / GRADIENTS)
    writer.write({"kind": "reference", "file": "ref.py", "function": "objective"})
    names = [(name, rank) for name in job.shapes for rank in ((0, 1) if name == "head.weight" else (None,))]
    for id, (name, rank) in enumerate(names):
        shape = job.shapes[name]
        fields = {"kind": "parameter", "id": id, "name": name, "rank": rank, "shape": shape, "rows": rows(shape)}
        writer.write({**fields, "dtype": TYPE})
    for window in job.windows():
        (gradients_0L,), (gradients_1L,) = window.gradients_RML
        whole = 412 * (gradients_0L + gradients_1L)
        own = [412 * 2 * gradients[window.columns("head.weight")] for gradients in (gradients_0L, gradients_1L)]
        numbers = np.concatenate([whole[: window.starts[3]], *own])
        fields = {"kind": "contribution", "optimizer": 0, "count": window.number, "loss": 1.0, "units": 824.0}
        members = [[0, window.number], [1, window.number]]
        writer.write({**fields, "members": members, "parameters": [*range(len(names))]}, numbers)
    writer.write({"kind": "end"})
    writer.close()

    verdict = diagnose(tmp_path)

    assert (verdict.outcome, verdict.findings) == ("right", [])
    assert "on 4 parameters" in verdict.notes[0]


def _own_parts(window: Window) -> Any:
    found = mean_of_means(window)
    columns = window.columns("head.weight")
    found[:, columns] = window.gradients_RML[:, 0, columns]
    return found
