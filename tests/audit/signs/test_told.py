"""Contributions that a script says itself (JAX): what its word leaves open is not measured, the rest is judged."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import combined, edited
from audit.traces import HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.audit.sentences import words
from failuremap.audit.signs import told

UNEVEN = [[400], [100]]


def own(window):
    """Each rank steps on its own gradients."""
    return np.einsum("rml->rl", window.gradients_RML)


def same_on_all_ranks(gradients, _):
    """Every rank's contribution is that of the first."""
    return np.repeat(gradients[:1], len(gradients), axis=0)


def other_weights(weights, rank):
    """Weights that are not those of the other ranks."""
    return weights + rank


def said(job: HandJob, folder, *, framework: str = "jax 0.10.2", without: str = ""):
    """The verdict on a job that says its contributions; records of one kind may be left out."""

    def edit(_, records):
        records[0][0]["framework"] = framework
        for place in of_kind(records, "backward"):
            records[place][0].update(via="told", kept=[])
        for place in of_kind(records, "step"):
            records[place][0]["weights"] = "sketch" if records[place][0]["count"] == 0 else "coordinates"
        return [record for record in records if record[0]["kind"] != without]

    return diagnose(edited(job, folder, edit))


def test_a_contribution_that_no_update_holds_is_a_fault_and_not_set_aside(tmp_path):
    verdict = said(HandJob([[300, 300], [300, 300]], combined([0, 0.5])), tmp_path)

    assert verdict.outcome == "wrong"
    assert "Only the last of 2 micro-batches" in verdict.sentence


def test_one_contribution_of_all_devices_is_not_measured(tmp_path):
    verdict = said(HandJob(UNEVEN, gradients=same_on_all_ranks), tmp_path)

    assert (verdict.outcome, verdict.findings) == ("not measured", [])
    assert verdict.reasons == [f"{told.ADDED_UP_BEFORE} (3 of 3 steps)"]


def test_negative_control_ranks_that_were_watched_read_the_same_data(tmp_path):
    assert diagnose(HandJob(UNEVEN, gradients=same_on_all_ranks).write(tmp_path)).outcome == "wrong"


def test_devices_that_start_from_other_weights_are_not_measured(tmp_path):
    verdict = said(HandJob(UNEVEN, own, weights=other_weights), tmp_path)

    assert (verdict.outcome, verdict.findings) == ("not measured", [])
    assert f"{told.APART} (3 of 3 steps)" in verdict.reasons


def test_devices_that_drift_apart_are_judged(tmp_path):
    verdict = said(HandJob(UNEVEN, own), tmp_path)

    assert [c.slug for f in verdict.findings for c in f.candidates] == ["never-synchronised"]


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        ("step", "no optimizer step was seen: wrap the optimizer, failuremap.audit.jax.watched(optimizer)"),
        ("backward", "no contribution was said before it: grads = failuremap.audit.jax.contribution(grads, count)"),
    ],
)
def test_a_line_that_is_missing_is_named(without, reason, tmp_path):
    verdict = said(HandJob(UNEVEN), tmp_path, without=without)

    assert (verdict.outcome, [given.removesuffix(" (3 of 3 steps)") for given in verdict.reasons]) == (
        "not measured",
        [reason],
    )


def test_the_repair_is_in_the_words_of_the_framework(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "mine").mkdir()
    in_jax = said(HandJob(UNEVEN), tmp_path / "jax").findings[0].repair
    elsewhere = said(HandJob(UNEVEN), tmp_path / "mine", framework="mine 1.0").findings[0].repair

    assert in_jax == (
        "Weigh each device by the units that its loss is a mean over: "
        "grads, total = failuremap.aggregate.jax.weighted_mean(grads, count, axis)"
    )
    assert "dist.all_reduce" in elsewhere


@pytest.mark.parametrize("slug", told._REPAIRS)
def test_every_mechanism_with_words_of_its_own_is_in_the_catalogue(slug):
    from failuremap.catalogue.shelf import mechanisms

    assert slug in mechanisms()


@pytest.mark.parametrize("sentence", told._IN_JAX)
def test_what_is_said_otherwise_is_a_sentence_of_the_audit(sentence):
    assert sentence in vars(words).values()
