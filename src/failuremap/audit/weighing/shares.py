"""The weights of one step judged: clipping undone, every loss term weighed, shares against the promise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Asked, Fault, Judged, Main
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.model import Cell
from failuremap.audit.sentences import loss_words, words
from failuremap.audit.steps.story import Part
from failuremap.audit.weighing import calls
from failuremap.audit.weighing.balance import SURE, TOTAL, Balance
from failuremap.audit.weighing.two_readings import believed, may_be_summed, prefers, together
from failuremap.audit.weighing.weigh import Readings, Term, read_losses
from failuremap.audit.weighing.weight_signs import weight_signs
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]


# heaviest over lightest unit inside one contribution up to which a script counts as weighing its units alike
ALIKE = 1.01
# rules that divide every window by the length of a full one
_FULL_DIVISOR = frozenset(("mean_over_full_window", "weighted_mean_over_full_window"))
# relative error, five standard errors wide, beyond which a coefficient says nothing
HOPELESS = 0.5


@dataclass(frozen=True)
class Scene:
    """All that weighing looks at, beside the term."""

    fitted: Fitted
    main: Main
    signs: set[Sign]
    asked: Asked


def judge_weights(judged: Judged, scene: Scene, readings: Readings) -> None:
    """Judges what each unit weighs, as far as the losses were seen; a pass without any gradient has no unit."""
    readings = replace(readings, unseen=[k for k in readings.unseen if scene.fitted.nonzero_K[k]])
    scene = replace(scene, main=_unclipped(judged, scene))
    if readings.uncounted:
        judged.unmeasured.append(readings.uncounted)
        return
    if not readings.alternatives:
        judged.unmeasured.append(words.loss_not_seen(readings.unseen_operations))
        _keep_bare_coefficients(judged, scene)
        return
    if readings.unseen:
        seen = (len(readings.unseen), len(scene.fitted.step.keys))
        judged.unmeasured.append(words.part_not_seen(*seen, readings.unseen_operations))
    tries = [_weighed(judged, scene, way) for way in readings.alternatives]
    modes = [backward.path.get("synchronising") for backward in scene.fitted.step.backwards]
    chosen = believed(tries, readings.alternatives, scene.fitted.step.keys, modes)
    if joint := together(readings.alternatives[0]):
        found, ranks = _weighed(judged, scene, joint), len(scene.fitted.step.ranks)
        if may_be_summed(found, joint, ranks, scene.main.coefficients_K[scene.main.live_K]):
            chosen.unexplained.append(loss_words.may_be_summed(ranks, scene.asked.noun))
        elif prefers(found, joint, chosen):
            chosen = found
    if not chosen.faults and any(term.spread > ALIKE for term in readings.alternatives[0]):
        chosen = _by_call(judged, scene) or chosen
    # with a part of the loss unseen, its units' total is not all that there is
    judged.faults += [fault for fault in chosen.faults if fault.kind != "total" or not readings.unseen]
    judged.plain_sum, judged.factor = chosen.plain_sum, chosen.factor
    judged.weighed_by_counts, judged.totals, judged.apart = chosen.weighed_by_counts, chosen.totals, chosen.apart
    judged.main_term, judged.unit_count = chosen.main_term, chosen.unit_count
    judged.unexplained += chosen.unexplained
    judged.doubts, judged.notes = judged.doubts + chosen.doubts, judged.notes + chosen.notes
    judged.cells, judged.equal_counts, judged.relative_error = chosen.cells, chosen.equal_counts, chosen.relative_error


def _by_call(judged: Judged, scene: Scene) -> Judged | None:
    """What is said of lines that each pass calls several times, each call as a term; None where it isn't believed."""
    split, lines = calls.by_call(scene.fitted.step.backwards)
    ways = read_losses(split, scene.asked.unit, scene.fitted.step.used_KP).alternatives if split else []
    if not ways:
        return None
    found = _weighed(judged, scene, ways[0])
    found.notes.append(loss_words.calls_as_terms(lines))
    return found if calls.believed(found) else None


def _keep_bare_coefficients(judged: Judged, scene: Scene) -> None:
    """Without a loss there are only coefficients to show."""
    judged.cells = cells(scene.fitted, scene.main)
    live = scene.main.live_K
    size = np.maximum(np.abs(scene.main.coefficients_K[live]), 1e-300)
    judged.relative_error = float((scene.main.errors_K[live] / size).max(initial=0.0))


def _unclipped(judged: Judged, scene: Scene) -> Main:
    """The rule before clipping: one common factor is taken out, factors that differ by contribution are a fault."""
    fitted, main = scene.fitted, scene.main
    if not any(part.clips for part in fitted.step.parts):
        return main
    parts = {part.rank: part for part in fitted.step.parts}
    factors = np.array(
        [
            _clip_factor(parts[rank], backward.id)
            for (rank, _), backward in zip(fitted.step.keys, fitted.step.backwards, strict=True)
        ]
    )
    undone = replace(main, coefficients_K=main.coefficients_K / factors, errors_K=main.errors_K / factors)
    if np.ptp(factors) <= 1e-4 * factors.max():
        return undone
    live = undone.coefficients_K[main.live_K]
    if len(live) and np.ptp(live) <= 0.01 * np.abs(live).max():
        sentence = words.clipped_before(fitted.step.keys, factors)
        judged.faults.append(
            Fault("clip", scene.signs | {Sign.CLIPPED_BEFORE_REDUCTION}, sentence, cells=cells(fitted, main))
        )
        return undone
    judged.notes.append("the ranks, or the micro-batches, were clipped by different norms")
    return main


def _clip_factor(part: Part, backward: int) -> float:
    """What torch's clipping made of a contribution: a clip scales all that had been accumulated by then."""
    by_moment = {clip["after"]: min(1.0, clip["limit"] / (clip["norm"] + 1e-6)) for clip in part.clips}
    return float(np.prod([factor for after, factor in by_moment.items() if after >= backward]))


def _weighed(judged: Judged, scene: Scene, terms: list[Term]) -> Judged:
    """All terms of the loss, weighed; in a Judged of their own."""
    found = Judged(judged.number, micro_batch_count=judged.micro_batch_count)
    main, promise, keys = scene.main, scene.asked.promise, scene.fitted.step.keys
    balances = [Balance(term, keys, main.coefficients_K, main.errors_K, main.live_K, promise) for term in terms]
    heaviest = max(balances, key=lambda balance: (int(balance.term.has_K.sum()), abs(balance.total)))
    found.cells, found.main_term, found.unit_count = heaviest.cells(), heaviest.term.name, heaviest.unit_count
    counts = heaviest.term.counts_K[heaviest.term.has_K]
    found.weighed_by_counts, found.apart = heaviest.by_counts, any(term.apart for term in terms)
    found.equal_counts = bool(len(counts) < 2 or np.ptp(counts) <= 1e-9 * counts.max(initial=0.0))
    for balance in balances:
        found.relative_error = max(found.relative_error, balance.relative_error)
        if balance.term.spread > ALIKE:
            found.unexplained.append(words.own_weights(balance.term, scene.asked))
            found.cells = [_without_share(cell) if balance is heaviest else cell for cell in found.cells]
        elif balance.lacking and any(other.term.has_K.all() for other in balances):
            found.unexplained.append(loss_words.lacking(balance.term.name, balance.lacking, balance.total))
        else:
            found.totals |= {} if balance.uneven or not balance.term.total_known else {balance.term.name: balance.total}
            alone = len(balances) == 1 or balance.plain
            _judge_balance(found, balance, scene, alone=alone, shown=balance is heaviest)
    return found


def _without_share(cell: Cell) -> Cell:
    """A cell of units that weigh differently: none of them weighs what the average does."""
    return cell.model_copy(update={"share": None, "effective_weight": None})


def _judge_balance(found: Judged, balance: Balance, scene: Scene, *, alone: bool, shown: bool) -> None:
    if not np.isfinite(balance.relative_error) or balance.relative_error * 5 > HOPELESS:
        found.doubts.append(words.not_separable(balance))
        return
    if not balance.term.total_known:
        found.unexplained.append(words.scale_not_seen())
        return
    # what is missing has been said; the rest of the weights follows from it
    if scene.main.signs or (not balance.uneven and not balance.off):
        return
    followed = balance.followed(scene.fitted.observations[0].ranks[0], scene.asked.full_window, weighed=not alone)
    seen = scene.signs | weight_signs(balance, scene.fitted, scene.asked)
    seen |= {Sign.LONG_WINDOW} if _divided_as_a_shorter(followed, scene) else set()
    if balance.uneven and not followed and _by_coefficients(balance):
        seen.add(Sign.CLIPPED_BEFORE_REDUCTION)
    seen |= {Sign.WEIGHED_BY_SEQUENCES} if not followed and balance.by_rows else set()
    named = bool(followed) or Sign.EMPTY_CONTRIBUTION in seen or Sign.IDLE_UNITS_COUNTED in seen
    open_total = named or (balance.term.apart and balance.total > 1)
    if alone and open_total and not balance.uneven and (why := _may_be_meant(balance, scene.asked, seen)):
        found.unexplained.append(why)
        return
    learned = balance.term.times is None
    if not balance.uneven and (not alone or not named or learned):
        found.notes.append(words.own_factor(balance))
        if shown and not learned:  # a term beside the main one may well weigh less
            found.factor = balance.total
            found.cells = [_against_average(cell, balance.total) for cell in found.cells]
        return
    if not balance.uneven and len(balance.keys) == 1 and "unit_sum" in followed:  # nothing is added up here
        found.notes.append(words.plain_sum(scene.asked.noun))
        found.plain_sum = True
        return
    found.faults.append(
        Fault(
            "weights" if balance.uneven else "total",
            seen,
            _sentence(balance, seen, followed, scene.asked),
            followed,
            ratio=balance.ratio,
            total=balance.total,
            term=balance.term.name,
            effect=_effect(balance, scene.fitted),
            cells=balance.cells(),
        )
    )


def _may_be_meant(balance: Balance, asked: Asked, seen: set[Sign]) -> str:
    """What a total that has the size of a known fault may be as well; '' if nothing is known of."""
    total, term = balance.total, balance.term
    if term.hidden_in:
        said = loss_words.unmoved(term.hidden_in) if term.unmoved else ""
        return loss_words.factor_inside(total, term.hidden_in, asked.noun) + said
    if term.apart:
        return loss_words.factor_apart(asked.noun, balance.promise)
    by_number = term.times is not None and abs(total / (term.times or np.inf) - 1) <= TOTAL
    if by_number and total < 1 and Sign.SHORT_WINDOW not in seen:  # a full window shows what the number is for
        return loss_words.multiplied(total, asked.noun)
    if by_number and _is_distilled(term) and total > 1 and abs(np.sqrt(total) - round(np.sqrt(total))) <= TOTAL:
        return loss_words.temperature(total, asked.noun)
    as_row = term.row_length > 1 and abs(total / term.row_length - 1) <= TOTAL
    return loss_words.rows_added_up(total, asked.noun) if as_row else ""


def _is_distilled(term: Term) -> bool:
    """Whether its targets are probabilities, as those of another model at a temperature are."""
    return bool({part.partition("(")[0] for part in term.function.split(", ")} & {"kl_div", "log_softmax"})


def _divided_as_a_shorter(followed: list[str], scene: Scene) -> bool:
    """The window holds more micro-batches than a full one, but not those of two, and has the divisor of a full one."""
    size, full = len({batch for _, batch in scene.fitted.step.keys}), scene.asked.full_window
    return full < size < 2 * full and not _FULL_DIVISOR.isdisjoint(followed)


def _against_average(cell: Cell, total: float) -> Cell:
    """A cell whose share is that of the average unit: a factor that all units share is the script's own affair."""
    return cell if cell.share is None else cell.model_copy(update={"share": cell.share / total})


def _sentence(balance: Balance, seen: set[Sign], followed: list[str], asked: Asked) -> str:
    if balance.uneven:
        sentence = words.uneven(balance, asked.noun)
        return loss_words.apart(sentence) if balance.term.apart else sentence
    if "unit_sum" in followed:
        return words.plain_sum(asked.noun)
    return (
        words.empty_takes_share(balance, asked.noun) if Sign.EMPTY_CONTRIBUTION in seen else words.total(balance, asked)
    )


def _by_coefficients(balance: Balance) -> bool:
    """Units weigh alike in their losses, and contributions have factors of their own, as clipping gives them."""
    weights = balance.term.unit_weights_K[balance.counted_K]
    return bool(
        np.ptp(weights) <= 0.005 * np.abs(weights).max() and (balance.coefficients_K[balance.counted_K] > 0).all()
    )


def _effect(balance: Balance, fitted: Fitted) -> float | None:
    """|update - right update| / |right update|, every tensor counted alike; None where it cannot be computed."""
    weights = balance.term.unit_weights_K
    if (weights[balance.counted_K] == 0).any():
        return None
    right_K = np.where(weights != 0, balance.fair / np.where(weights != 0, weights, 1), 0.0)
    apart_L = (balance.coefficients_K - right_K) @ fitted.step.contributions_KL
    right_L = right_K @ fitted.step.contributions_KL
    starts, scale_P = fitted.step.starts[:-1], fitted.products.scale_P
    apart, size = (float(np.add.reduceat(vector**2, starts) @ scale_P) for vector in (apart_L, right_L))
    return float(np.sqrt(apart / size)) if size > 0 else None


def cells(fitted: Fitted, main: Main | None) -> list[Cell]:
    """The picture of one rule: its coefficients, and what units weigh where a loss was seen."""
    if main is None:
        return []
    units = read_losses(fitted.step.backwards, None, fitted.step.used_KP)
    terms = units.alternatives[0] if units.alternatives else []
    largest = max(terms, key=lambda term: float(np.abs(term.totals_K).sum()), default=None)
    if largest is None:
        empty = np.zeros(len(fitted.step.keys))
        largest = Term("", empty, empty, empty > 0, 1.0, False, 0.0)
    return Balance(largest, fitted.step.keys, main.coefficients_K, main.errors_K, main.live_K, "mean").cells()


def even_enough(relative_error: float, step_count: int) -> bool:
    """Whether the errors are small enough, over so many steps, to call weights equal."""
    return bool(5 * relative_error / np.sqrt(max(step_count, 1)) <= SURE)
