"""More contributions than can be solved for: combinations that have a name are tried, and then corrected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.traces import Floats, HandJob, Window, mean_of_means
from failuremap.audit import diagnose
from failuremap.audit.fitting.hypotheses import directions
from failuremap.audit.model import Verdict
from failuremap.audit.steps.story import read_rank
from failuremap.audit.steps.windows import Assembler, Step
from failuremap.audit.trace import read_folder

RANKS, WINDOW = 16, 5
SHAPES = {f"layer{index}.weight": (32, 32) for index in range(4)}
COUNTS = [np.random.default_rng(seed).integers(50, 400, size=(RANKS, WINDOW)).tolist() for seed in (1, 2)]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty contributions are more than are solved for."""
    monkeypatch.setattr("failuremap.audit.fitting.observe.MOST_SOLVED", RANKS * WINDOW - 1)


def job(update: Callable[[Window], Floats], **more: Any) -> HandJob:
    """A job whose steps have eighty contributions."""
    return HandJob(**{"counts": COUNTS, "update": update, "steps": 2, "shapes": SHAPES, **more})


def weighted(window: Window) -> Floats:
    """n/N for each contribution."""
    return window.combined(window.counts_RM / window.counts_RM.sum())


def changed(change: Callable[[Floats], None]) -> Callable[[Window], Floats]:
    """The right weights, with one change."""

    def update(window: Window) -> Floats:
        weights = window.counts_RM / window.counts_RM.sum()
        change(weights)
        return window.combined(weights)

    return update


def times(place: Any, factor: float) -> Callable[[Floats], None]:
    """Multiplies some weights."""

    def change(weights: Floats) -> None:
        weights[place] *= factor

    return change


def names(verdict: Verdict) -> set[str]:
    """The mechanisms of the first finding."""
    return {candidate.slug for candidate in verdict.findings[0].candidates}


def test_a_right_job_is_right(tmp_path: Path) -> None:
    verdict = diagnose(job(weighted).write(tmp_path))
    assert (verdict.outcome, verdict.reasons) == ("right", [])


def test_a_mean_of_means_is_named(tmp_path: Path) -> None:
    verdict = diagnose(job(mean_of_means).write(tmp_path))
    assert verdict.outcome == "wrong"
    assert "replica-means-ignore-counts" in names(verdict)
    assert verdict.findings[0].effect is not None


def test_the_effect_is_how_far_the_update_is_off(tmp_path: Path) -> None:
    hand = job(mean_of_means)
    finding = diagnose(hand.write(tmp_path)).findings[0]
    assert finding.cells_step is not None
    window = hand.windows()[finding.cells_step - 1]
    right, made = weighted(window)[0], window.updates_RL[0]
    assert finding.effect == pytest.approx(float(np.linalg.norm(made - right) / np.linalg.norm(right)), rel=0.1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (times(11, 0.0), "The gradient of rank 11 never reaches the update."),
        (times((slice(None), 3), 0.0), "Micro-batch 3 of 5 never"),
        (times((12, 4), 3.0), "rank 12, micro-batch 4 weighs 3.00 times"),
        (times([4, 13], 2.0), "2.00 times"),
    ],
)
def test_what_weighs_otherwise_is_found_alone(change: Callable[[Floats], None], sentence: str, tmp_path: Path) -> None:
    verdict = diagnose(job(changed(change)).write(tmp_path))
    assert verdict.outcome == "wrong"
    assert sentence in verdict.sentence


def test_weights_that_no_hypothesis_gives_are_not_called_right(tmp_path: Path) -> None:
    drawn = np.random.default_rng(5).uniform(0.9, 1.1, size=(RANKS, WINDOW))
    verdict = diagnose(job(changed(times(slice(None), drawn))).write(tmp_path))
    assert verdict.outcome == "cannot tell"


def test_ranks_that_step_on_their_own_are_seen(tmp_path: Path) -> None:
    def own(window: Window) -> Floats:
        weights = window.counts_RM / window.counts_RM.sum(axis=1, keepdims=True)
        return np.einsum("rm,rml->rl", weights, window.gradients_RML)

    verdict = diagnose(job(own, counts=[table[:] for table in COUNTS]).write(tmp_path))
    assert verdict.outcome == "wrong"
    assert "own" in verdict.sentence


def test_a_parameter_that_follows_a_rule_of_its_own_is_seen(tmp_path: Path) -> None:
    def update(window: Window) -> Floats:
        made = weighted(window)
        made[:, window.columns("layer2.weight")] *= WINDOW
        return made

    verdict = diagnose(job(update).write(tmp_path))
    assert verdict.outcome == "wrong"
    assert verdict.findings[0].parameters == ["layer2.weight"]


def test_an_update_that_holds_the_one_before_is_seen(tmp_path: Path) -> None:
    def update(window: Window) -> Floats:
        return weighted(window) + (window.before.updates_RL if window.before else 0)

    verdict = diagnose(job(update, steps=3, counts=[*COUNTS, COUNTS[0]]).write(tmp_path))
    assert verdict.outcome == "wrong"
    assert "previous" in verdict.sentence or "step before" in verdict.sentence


@pytest.mark.parametrize("seed", range(3))
def test_bfloat16_never_makes_a_wrong_job_right(seed: int, tmp_path: Path) -> None:
    wrong = job(changed(times((slice(None), 3), 0.97)), dtype="bfloat16", seed=seed)
    assert diagnose(wrong.write(tmp_path)).outcome != "right"


def test_directions_are_simple_first_and_none_twice(tmp_path: Path) -> None:
    found = directions(_step(tmp_path))
    assert (found.weights_DK[0] == 1).all()
    units = found.weights_DK / np.linalg.norm(found.weights_DK, axis=1, keepdims=True)
    simple = [chosen[0] for chosen in found.sets if len(chosen) == 1]
    apart = np.abs(units[simple] @ units[simple].T) - np.eye(len(simple))
    assert apart.max() < 1 - 1e-12


def _step(folder: Path) -> Step:
    ranks = [read_rank(trace) for trace in read_folder(HandJob(counts=((3, 5), (7, 2)), steps=1).write(folder))]
    return next(Assembler(ranks, 2).steps())


@pytest.mark.slow
def test_a_thousand_ranks_are_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    counts = [np.random.default_rng(seed).integers(50, 400, size=(1024, 8)).tolist() for seed in (1, 2)]
    assert diagnose(job(weighted, counts=counts).write(tmp_path)).outcome == "right"
