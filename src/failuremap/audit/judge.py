"""One step judged: what is wrong with it, as faults with their signs, rules and cells."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from failuremap.audit import patterns, words
from failuremap.audit.balance import SURE, Balance
from failuremap.audit.model import Cell
from failuremap.audit.observe import Fitted, Observation, nonfinite, observe
from failuremap.audit.weigh import Readings, Term, read_losses
from failuremap.audit.windows import Step
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass
class Fault:
    """One thing that is wrong at one step."""

    kind: str
    """Faults of a kind at several steps are one finding."""
    signs: set[Sign]
    sentence: str
    followed: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    ratio: float | None = None
    total: float | None = None
    term: str | None = None
    effect: float | None = None
    cells: list[Cell] = field(default_factory=list)


@dataclass
class Judged:
    """What one step shows."""

    number: int
    faults: list[Fault] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """Why something of this step cannot be told."""
    unmeasured: list[str] = field(default_factory=list)
    """Why something of this step was not measured."""
    notes: list[str] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    relative_error: float = 0.0
    residual: float | None = None
    judged_parameters: int = 0
    all_parameters: int = 0
    losses_seen: int = 0
    losses_total: int = 0
    sites: list[str] = field(default_factory=list)
    micro_batch_count: int = 0
    equal_counts: bool = False
    totals: dict[str, float] = field(default_factory=dict)
    unit_counts: dict[str, float] = field(default_factory=dict)
    weights_equal: bool | None = None


@dataclass(frozen=True)
class Asked:
    """What the user wants to know, and what is known of the whole job."""

    unit: str | None
    noun: str
    promise: str
    full_window: int


def judge(step: Step, previous: Step | None, asked: Asked) -> Judged:
    """Judges one step."""
    judged = Judged(step.number, weights_equal=step.weights_equal, all_parameters=len(step.parameters))
    judged.micro_batch_count = len({micro_batch for _, micro_batch in step.keys})
    unwatched = sorted({name for part in step.parts for name in part.unwatched})
    if unwatched:
        judged.unmeasured.append(f"parameters of type {', '.join(unwatched)} are not watched yet (sharded training)")
    readings = read_losses(step.backwards, asked.unit)
    judged.losses_total, judged.losses_seen = len(step.backwards), len(step.backwards) - len(readings.unseen)
    judged.sites = sorted({term.name for way in readings.alternatives[:1] for term in way})
    judged.notes += [f"set aside: {reason}" for reason in sorted(set(step.set_aside.values()))]
    if not step.keys:
        judged.unmeasured.append("no gradient of the stepped parameters came through autograd")
        return judged
    if step.missing_ranks:
        judged.doubts.append(f"rank {', '.join(map(str, step.missing_ranks))} took no part in it")
        return judged
    bad, bad_updates = nonfinite(step)
    if bad or bad_updates:
        _judge_nonfinite(judged, step, readings, bad, asked)
        return judged
    _judge_fitted(judged, observe(step, previous), readings, asked)
    return judged


def _judge_nonfinite(judged: Judged, step: Step, readings: Readings, bad: list[int], asked: Asked) -> None:
    empty = _empty(readings, len(step.keys))
    guilty = [k for k in bad if empty[k]]
    if not guilty:
        judged.doubts.append("the gradients were not finite (nan or inf)")
        return
    where = words.contribution(*step.keys[guilty[0]])
    judged.faults.append(
        Fault("nonfinite", {Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION}, words.empty_is_nan(where, asked.noun), cells=_bare_cells(step, readings))
    )


def _empty(readings: Readings, size: int) -> Mask:
    """Contributions whose losses were seen and count no unit at all."""
    terms = readings.alternatives[0] if readings.alternatives else []
    has, units = np.zeros(size, dtype=bool), np.zeros(size)
    for term in terms:
        has |= term.has_K
        units += term.counts_K
    return has & (units == 0)


def _bare_cells(step: Step, readings: Readings) -> list[Cell]:
    terms = readings.alternatives[0] if readings.alternatives else []
    counts = [next((float(term.counts_K[k]) for term in terms if term.has_K[k]), None) for k in range(len(step.keys))]
    return [
        Cell(rank=rank, micro_batch=batch, count=count, coefficient=None, coefficient_error=None, loss_weight=None, effective_weight=None, share=None)
        for (rank, batch), count in zip(step.keys, counts, strict=True)
    ]  # fmt: skip


def _judge_fitted(judged: Judged, fitted: Fitted, readings: Readings, asked: Asked) -> None:
    judged.residual = max((c.solution.residual for o in fitted.observations for c in o.clusters[:1]), default=None)
    _judge_left(judged, fitted)
    signs = _surroundings(fitted)
    main = _main(judged, fitted, signs)
    _judge_other_parameters(judged, fitted, main, signs, asked)
    _judge_same(judged, fitted, signs)
    if main is not None:
        _judge_weights(judged, fitted, main, readings, signs, asked)
    judged.judged_parameters = _judged_count(fitted)


def _judged_count(fitted: Fitted) -> int:
    seen = np.ones(len(fitted.step.parameters), dtype=bool)
    for observation in fitted.observations:
        seen &= ~(observation.unexplained | observation.untouched)
    return int(seen.sum())


def _judge_left(judged: Judged, fitted: Fitted) -> None:
    """What no rule explains: the step before (a fault), nothing that was captured (not measured), or nothing at all."""
    names = [parameter.name for parameter in fitted.step.parameters]
    carried = [o.carried for o in fitted.observations if o.carried is not None]
    if carried:
        first = carried[0]
        touched = [names[p] for p in np.flatnonzero(first.parameters)]
        sign = Sign.PREVIOUS_UPDATE_ADDED if first.current else Sign.PREVIOUS_UPDATE_ONLY
        judged.faults.append(Fault(str(sign), {sign}, words.carried(first.current, first.factor), parameters=touched))
    untouched = np.any([o.untouched for o in fitted.observations], axis=0)
    if untouched.any():
        judged.unmeasured.append(
            f"{int(untouched.sum())} parameters were stepped on gradients that did not come through autograd "
            f"({words.listed([names[p] for p in np.flatnonzero(untouched)])})"
        )
    left = np.any([o.unexplained for o in fitted.observations], axis=0)
    if left.any():
        _judge_unexplained(judged, fitted, left, names)


def _judge_unexplained(judged: Judged, fitted: Fitted, left: Mask, names: list[str]) -> None:
    touched = [names[p] for p in np.flatnonzero(left)]
    small = fitted.products.row_counts[left].sum() < 2 * len(fitted.classes) + 2
    if small:
        judged.doubts.append(f"{words.listed(touched)}: too few numbers to tell which rule {'they follow' if len(touched) > 1 else 'it follows'}")
        return
    judged.faults.append(Fault("unexplained", set(), words.unexplained(len(touched), len(names)), parameters=touched))


def _surroundings(fitted: Fitted) -> set[Sign]:
    """What is known of the job beside the coefficients."""
    step = fitted.step
    signs = {Sign.SINGLE_RANK} if len(step.ranks) == 1 else set()
    if len({batch for _, batch in step.keys}) == 1:
        signs.add(Sign.SINGLE_MICRO_BATCH)
    paths = [backward.path for backward in step.backwards]
    signs.add(Sign.DDP_PRESENT if any(paths) else Sign.NO_DDP)
    if step.weights_equal is False:
        signs |= {Sign.REPLICAS_DIFFER, Sign.REPLICAS_DIFFER_AT_START if step.number == 1 else Sign.REPLICAS_DIFFER_LATER}
    if any(paths):
        signs |= _wrapper_signs(step)
    return signs


def _wrapper_signs(step: Step) -> set[Sign]:
    last = {rank: backward.path for (rank, _), backward in zip(step.keys, step.backwards, strict=True)}
    paths = [backward.path for backward in step.backwards if backward.path]
    if not any(path["forwards"] for path in paths):
        return {Sign.FORWARD_BYPASSED_WRAPPER}
    if not any(path["armed"] for path in paths) and not any(path["synchronising"] for path in paths):
        return {Sign.SYNCHRONISATION_OFF}
    ends = [path for path in last.values() if path]
    if ends and all(path["synchronising"] and not path["armed"] and path["forwards"] for path in ends):
        return {Sign.FORWARD_UNSYNCHRONISED}
    return set()


@dataclass(frozen=True)
class Main:
    """The rule of most parameters, the same for every rank that steps."""

    coefficients_K: Floats
    errors_K: Floats
    live_K: Mask
    signs: set[Sign]


def _main(judged: Judged, fitted: Fitted, signs: set[Sign]) -> Main | None:
    """The rule that the ranks follow together; None where each steps on its own, which is judged here."""
    rules = [rule for rule in (_rule_of(o, fitted) for o in fitted.observations) if rule is not None]
    if not rules:
        return None
    if len(rules) > 1 and _judge_apart(judged, fitted, signs):
        return None
    main = rules[0]
    missing, which = patterns.missing(patterns.presence(main.coefficients_K, main.errors_K, fitted.nonzero_K), fitted.step.keys)
    if missing:
        sentence = words.missing(missing, which, judged.micro_batch_count)
        judged.faults.append(Fault(f"missing {sorted(missing)}", signs | missing, sentence, cells=_cells(fitted, main)))
        return replace(main, signs=missing)
    return main


def _rule_of(observation: Observation, fitted: Fitted) -> Main | None:
    carried = observation.carried
    if observation.clusters:
        solution = observation.clusters[0].solution
        coefficients, errors = solution.coefficients, solution.errors
    elif carried is not None and carried.current:
        coefficients, errors = carried.coefficients_K, carried.errors_K
    else:
        return None
    found = patterns.presence(coefficients, errors, fitted.nonzero_K)
    return Main(coefficients, errors, found.live, set())


def _judge_apart(judged: Judged, fitted: Fitted, signs: set[Sign]) -> bool:
    """Judges ranks whose main rules differ; False if they do not."""
    own, tails, vectors, errors = [], [], [], []
    for observation in fitted.observations:
        rule = _rule_of(observation, fitted)
        if rule is None:
            continue
        found = patterns.presence(rule.coefficients_K, rule.errors_K, fitted.nonzero_K)
        own.append(patterns.own_only(found, fitted.step.keys, observation.ranks[0]))
        tails.append(patterns.unsynchronised_tail(found, fitted.step.keys, observation.ranks[0]))
        vectors.append(rule.coefficients_K)
        errors.append(rule.errors_K)
    first = fitted.observations[0]
    if all(own):
        judged.faults.append(_pattern(Sign.OWN_RANK_ONLY, signs, words.OWN_RANK_ONLY, fitted, first))
    elif any(tails):
        judged.faults.append(_pattern(Sign.UNSYNCHRONISED_TAIL, signs, words.UNSYNCHRONISED_TAIL, fitted, first))
    elif _apart(vectors, errors):
        judged.faults.append(Fault("apart", set(signs), words.ranks_apart(vectors), cells=_cells(fitted, _rule_of(first, fitted))))
    else:
        return False
    return True


def _apart(vectors: list[Floats], errors: list[Floats]) -> bool:
    for vector, error in zip(vectors[1:], errors[1:], strict=True):
        limit = np.maximum(0.01 * np.abs(vectors[0]).max(initial=0), 6 * (error + errors[0]))
        if (np.abs(vector - vectors[0]) > limit).any():
            return True
    return False


def _pattern(sign: Sign, signs: set[Sign], sentence: str, fitted: Fitted, observation: Observation) -> Fault:
    return Fault(str(sign), signs | {sign}, sentence, cells=_cells(fitted, _rule_of(observation, fitted)))


def _cells(fitted: Fitted, main: Main | None) -> list[Cell]:
    if main is None:
        return []
    units = read_losses(fitted.step.backwards, None)
    terms = units.alternatives[0] if units.alternatives else []
    largest = max(terms, key=lambda term: float(np.abs(term.totals_K).sum()), default=None)
    if largest is None:
        empty = np.zeros(len(fitted.step.keys))
        largest = Term("", empty, empty, empty > 0, 1.0, False, 0.0)
    return Balance(largest, fitted.step.keys, main.coefficients_K, main.errors_K, main.live_K, "mean").cells()


def _judge_other_parameters(judged: Judged, fitted: Fitted, main: Main | None, signs: set[Sign], asked: Asked) -> None:
    """Parameters that follow another rule than most."""
    names = [parameter.name for parameter in fitted.step.parameters]
    local, scaled, other = set(), {}, set()
    for observation in fitted.observations:
        local |= set(observation.own)
        for cluster in observation.clusters[1:]:
            touched = {names[p] for p in np.flatnonzero(cluster.parameters)}
            solution = cluster.solution
            found = patterns.presence(solution.coefficients, solution.errors, fitted.nonzero_K)
            if patterns.own_only(found, fitted.step.keys, observation.ranks[0]):
                local |= touched
            elif main is not None and (factor := _proportional(solution.coefficients, main.coefficients_K)) is not None:
                scaled |= {name: factor for name in touched}
            else:
                other |= touched
    if main is None:
        return
    if local:
        sentence = words.local_parameters(sorted(local), len(names))
        judged.faults.append(
            Fault("local parameters", signs | {Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS}, sentence, parameters=sorted(local), cells=_cells(fitted, main))
        )
    if other - local:
        judged.faults.append(
            Fault("other parameters", signs | {Sign.SOME_PARAMETERS}, words.other_parameters(sorted(other), len(names)), parameters=sorted(other))
        )
    _judge_scaled(judged, scaled, fitted, asked)


def _proportional(coefficients: Floats, main: Floats) -> float | None:
    """f where the coefficients are f times the main ones; None where they are not."""
    square = float(main @ main)
    factor = float(coefficients @ main) / square if square > 0 else 0.0
    apart = np.abs(coefficients - factor * main).max(initial=0.0)
    return factor if apart <= 0.01 * np.abs(main).max(initial=0.0) * max(abs(factor), 1e-3) or abs(factor) < 1e-6 else None


def _judge_scaled(judged: Judged, scaled: dict[str, float], fitted: Fitted, asked: Asked) -> None:
    """Parameters that differ from the others by a factor: named where it is R or M, else the script's own affair."""
    ranks, window = len(fitted.step.ranks), judged.micro_batch_count
    named = {value for value in (ranks, 1 / ranks, window, 1 / window) if value != 1}
    for factor in sorted({round(value, 4) for value in scaled.values()}):
        touched = sorted(name for name, value in scaled.items() if round(value, 4) == factor)
        if any(abs(factor / value - 1) < 0.01 for value in named):
            judged.faults.append(
                Fault("scaled parameters", {Sign.SOME_PARAMETERS}, words.scaled_parameters(touched, factor), parameters=touched)
            )
        else:
            judged.notes.append(words.scaled_parameters(touched, factor))


def _judge_same(judged: Judged, fitted: Fitted, signs: set[Sign]) -> None:
    keys, backwards = fitted.step.keys, fitted.step.backwards
    ranks = len(fitted.step.ranks)
    shared = [members for members in fitted.same if len({keys[k][0] for k in members}) == ranks > 1]
    if shared and sum(len(members) for members in shared) == len(keys):
        prints = [backwards[k].fingerprints for k in shared[0]]
        same_targets = bool(prints[0]) and all(found == prints[0] for found in prints)
        judged.faults.append(Fault("same", signs | {Sign.SAME_CONTRIBUTIONS}, words.same_data(same_targets)))


def _judge_weights(judged: Judged, fitted: Fitted, main: Main, readings: Readings, signs: set[Sign], asked: Asked) -> None:
    main = _unclipped(judged, fitted, main, signs)
    if readings.uncounted:
        judged.unmeasured.append(readings.uncounted)
        return
    if not readings.alternatives:
        judged.unmeasured.append(words.loss_not_seen(readings.unseen_operations))
        _judge_bare_coefficients(judged, fitted, main, signs)
        return
    if readings.unseen:
        judged.unmeasured.append(words.part_not_seen(len(readings.unseen), len(fitted.step.keys), readings.unseen_operations))
    tries = [_weighed(judged, fitted, main, way, signs, asked) for way in readings.alternatives]
    chosen = next((found for found in tries if not found.faults and not found.doubts), tries[0])
    judged.faults += chosen.faults
    judged.doubts += chosen.doubts
    judged.notes += chosen.notes
    judged.cells, judged.equal_counts, judged.relative_error = chosen.cells, chosen.equal_counts, chosen.relative_error
    judged.totals, judged.unit_counts = chosen.totals, chosen.unit_counts


def _judge_bare_coefficients(judged: Judged, fitted: Fitted, main: Main, signs: set[Sign]) -> None:
    """Without a loss only the coefficients can be compared."""
    judged.cells = _cells(fitted, main)
    judged.relative_error = float((main.errors_K[main.live_K] / np.maximum(np.abs(main.coefficients_K[main.live_K]), 1e-300)).max(initial=0.0))


def _unclipped(judged: Judged, fitted: Fitted, main: Main, signs: set[Sign]) -> Main:
    """The rule before clipping: one common factor is taken out, factors that differ by rank are a fault."""
    clips = {part.rank: [min(1.0, clip["limit"] / (clip["norm"] + 1e-6)) for clip in part.clips] for part in fitted.step.parts}
    if not any(clips.values()):
        return main
    last = np.array([clips[rank][-1] if clips.get(rank) else 1.0 for rank, _ in fitted.step.keys])
    if np.ptp(last) <= 1e-4 * last.max() or len(fitted.step.ranks) == 1:
        return replace(main, coefficients_K=main.coefficients_K / last, errors_K=main.errors_K / last)
    undone = main.coefficients_K / last
    live = undone[main.live_K]
    if len(live) and np.ptp(live) <= 0.01 * np.abs(live).max():
        factors = {rank: values[-1] for rank, values in clips.items() if values}
        judged.faults.append(Fault("clip", signs | {Sign.CLIPPED_BEFORE_REDUCTION}, words.clipped_before(factors), cells=_cells(fitted, main)))
        return replace(main, coefficients_K=undone, errors_K=main.errors_K / last)
    judged.notes.append("the ranks clipped by different norms")
    return main


def _weighed(judged: Judged, fitted: Fitted, main: Main, terms: list[Term], signs: set[Sign], asked: Asked) -> Judged:
    """All terms of the loss, weighed; in a Judged of their own."""
    found = Judged(judged.number, micro_batch_count=judged.micro_batch_count)
    balances = [Balance(term, fitted.step.keys, main.coefficients_K, main.errors_K, main.live_K, asked.promise) for term in terms]
    heaviest = max(balances, key=lambda balance: abs(balance.total))
    found.cells = heaviest.cells()
    counts = heaviest.term.counts_K[heaviest.term.has_K]
    found.equal_counts = bool(len(counts) < 2 or np.ptp(counts) <= 1e-9 * counts.max(initial=0.0))
    for balance in balances:
        found.relative_error = max(found.relative_error, balance.relative_error)
        found.totals[balance.term.name], found.unit_counts[balance.term.name] = balance.total, balance.unit_count
        if balance.term.spread > 1.01:
            found.doubts.append(words.own_weights(balance.term.name, asked.noun))
            continue
        _judge_balance(found, balance, fitted, main, signs, asked, len(balances))
    return found


def _judge_balance(found: Judged, balance: Balance, fitted: Fitted, main: Main, signs: set[Sign], asked: Asked, terms: int) -> None:
    if not np.isfinite(balance.relative_error) or (balance.relative_error * 5 > 0.5):
        found.doubts.append(words.not_separable(balance, fitted.step.parameters))
        return
    if main.signs:  # what is missing has been said; the rest of the weights follows from it
        return
    if not balance.uneven and not balance.off:
        return
    observer = fitted.observations[0].ranks[0]
    followed = balance.followed(observer, asked.full_window)
    seen = signs | _weight_signs(balance, fitted, asked)
    named = bool(followed) or Sign.EMPTY_CONTRIBUTION in seen or Sign.IDLE_UNITS_COUNTED in seen
    if not balance.uneven and (terms > 1 or not named):
        found.notes.append(words.own_factor(balance))
        return
    kind = "weights" if balance.uneven else "total"
    sentence = words.uneven(balance, asked.noun) if balance.uneven else words.total(balance, asked)
    if Sign.EMPTY_CONTRIBUTION in seen and not balance.uneven:
        sentence = words.empty_takes_share(balance, asked.noun)
    found.faults.append(
        Fault(kind, seen, sentence, followed, [], balance.ratio, balance.total, balance.term.name, _effect(balance, fitted), balance.cells())
    )


def _effect(balance: Balance, fitted: Fitted) -> float | None:
    """|update - right update| / |right update|, every tensor counted alike; None where it cannot be computed."""
    weights = balance.term.unit_weights_K
    if (weights[balance.counted_K] == 0).any():
        return None
    right_K = np.where(weights != 0, balance.fair / np.where(weights != 0, weights, 1), 0.0)
    members = [m for m in fitted.classes]
    right = np.array([right_K[m].sum() for m in members])
    now = np.array([balance.coefficients_K[m].sum() for m in members])
    chosen = fitted.products.by_parameter.sum(axis=0)[: len(members), : len(members)]
    size = float(right @ chosen @ right)
    return float(np.sqrt(max((now - right) @ chosen @ (now - right), 0.0) / size)) if size > 0 else None


def _weight_signs(balance: Balance, fitted: Fitted, asked: Asked) -> set[Sign]:
    """What the counts, the coefficients and the scales of the losses say."""
    signs: set[Sign] = set()
    ranks, has = len(fitted.step.ranks), balance.term.has_K
    live = balance.coefficients_K[balance.counted_K]
    by = {axis: _sums(balance, axis) for axis in (0, 1)}
    if _unequal(by[0]) or _unequal_within(balance, 1):
        signs.add(Sign.UNEQUAL_COUNTS_ACROSS_RANKS)
    if _unequal(by[1]) or _unequal_within(balance, 0):
        signs.add(Sign.UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES)
    if (balance.term.counts_K[has] == 0).any():
        signs.add(Sign.EMPTY_CONTRIBUTION)
    if balance.term.elements > 0 and abs(balance.total * balance.term.elements / max(balance.unit_count, 1e-300) - 1) < 0.01 and balance.promise == "mean":
        signs.add(Sign.IDLE_UNITS_COUNTED)
    if len({batch for _, batch in fitted.step.keys}) < asked.full_window:
        signs.add(Sign.SHORT_WINDOW)
    if len(live) and np.ptp(live) <= 0.01 * np.abs(live).max():
        signs |= _coefficient_signs(float(live.mean()), float(balance.term.totals_K[has].sum()), ranks)
    return signs


def _sums(balance: Balance, axis: int) -> list[float]:
    values = sorted({key[axis] for key in balance.keys})
    return [sum(float(count) for key, count in zip(balance.keys, balance.term.counts_K, strict=True) if key[axis] == value) for value in values]


def _unequal(values: list[float]) -> bool:
    return len(values) > 1 and max(values) - min(values) > 1e-9 * max(values)


def _unequal_within(balance: Balance, fixed: int) -> bool:
    """Counts differ along one axis while the other stays."""
    values = sorted({key[fixed] for key in balance.keys})
    return any(_unequal([float(count) for key, count in zip(balance.keys, balance.term.counts_K, strict=True) if key[fixed] == value]) for value in values)


def _coefficient_signs(coefficient: float, loss_total: float, ranks: int) -> set[Sign]:
    named = {Sign.COEFFICIENTS_SUM: 1.0, Sign.COEFFICIENTS_MEAN: 1 / ranks, Sign.COEFFICIENTS_MEAN_TWICE: 1 / ranks**2}
    signs = {sign for sign, value in named.items() if abs(coefficient / value - 1) < 0.01}
    if ranks > 1 and Sign.COEFFICIENTS_MEAN in signs and abs(loss_total / ranks**2 - 1) < 0.01:
        signs.add(Sign.LOSS_TIMES_WORLD)
    if ranks > 1 and Sign.COEFFICIENTS_SUM in signs and abs(loss_total / ranks - 1) < 0.01:
        signs.discard(Sign.LOSS_TIMES_WORLD)
    return signs


def even_enough(relative_error: float, step_count: int) -> bool:
    """Whether the errors are small enough, over so many steps, to call weights equal."""
    return 5 * relative_error / np.sqrt(max(step_count, 1)) <= SURE
