"""One step judged: what is wrong with it, as faults with their signs, rules and cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Asked, Fault, Judged, Main
from failuremap.audit.fitting import patterns
from failuremap.audit.fitting.alike import multiples
from failuremap.audit.fitting.observe import Fitted, Observation, nonfinite, observe
from failuremap.audit.model import Cell
from failuremap.audit.sentences import copy_words, shard_words, step_words, words
from failuremap.audit.signs.carried import judge_carried
from failuremap.audit.signs.crossings import crossings, tell_calls
from failuremap.audit.signs.exchanged import judge_exchanged
from failuremap.audit.signs.gathered import judge_gathered
from failuremap.audit.signs.held_apart import tell_held_apart
from failuremap.audit.signs.norms import judge_norms
from failuremap.audit.signs.other_parameters import judge_other_parameters
from failuremap.audit.signs.rates import judge_rates
from failuremap.audit.signs.shard_rules import judge_partials, judge_shards
from failuremap.audit.signs.told import ADDED_UP_BEFORE, added_up_before
from failuremap.audit.steps.tied import judge_tied
from failuremap.audit.steps.windows import Step
from failuremap.audit.weighing.shares import Scene, cells, judge_weights
from failuremap.audit.weighing.weigh import Readings, hidden_losses, read_losses
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def judge(step: Step, previous: Step | None, asked: Asked) -> Judged:
    """Judges one step."""
    judged = Judged(step.number, weights_equal=step.weights_equal, in_part=step.in_part, extent=step.extent)
    judged.differing, judged.names = step.weights_differ_in, frozenset(parameter.name for parameter in step.parameters)
    judged.agreeing_ranks, judged.differ_by_rounding = step.agreeing_ranks, step.differ_by_rounding
    judged.notes += [step_words.DIFFER_BY_ROUNDING] if step.differ_by_rounding else []
    judged.micro_batch_count = len({micro_batch for _, micro_batch in step.keys})
    unwatched = sorted({name for part in step.parts for name in part.unwatched})
    if unwatched:
        judged.unmeasured.append(shard_words.unwatched(unwatched))
    judged.unmeasured += copy_words.unmeasured(step.parts)
    judged.unmeasured += step.sharding.reasons if step.sharding is not None else []
    if step.pipelines is not None and step.pipelines.reasons:
        judged.unmeasured += step.pipelines.reasons
        return judged
    unread = any(part.unread for part in step.parts)
    # an update without any gradient is no matter of what was read: hooks were removed, say
    if step.in_part and (unread if step.keys else not step.updates_RL.any()):
        judged.doubts.append(words.UNREAD)
        return judged
    readings = read_losses(step.backwards, asked.unit, step.used_KP)
    judged.losses_total = len(step.backwards)
    judged.losses_seen = sum(bool(backward.losses or backward.counts) for backward in step.backwards)
    judged.notes += hidden_losses(step.backwards)
    judged.sites = sorted({term.name for way in readings.alternatives[:1] for term in way})
    judged.notes += [f"set aside: {reason}" for reason in sorted(set(step.set_aside.values()))]
    judged.unexplained += step.doubts
    if step.keys:
        _judge_gradients(judged, step, previous, readings, asked)
    elif not judged.unmeasured:
        judged.unmeasured.append(words.NO_GRADIENT if step.parameters else words.NO_UPDATE)
    return judged


def _judge_gradients(judged: Judged, step: Step, previous: Step | None, readings: Readings, asked: Asked) -> None:
    judged.missing_ranks, judged.rank_count, judged.norm = step.missing_ranks, len(step.ranks), step.length
    judged.clip_seen = step.clip_seen
    if step.missing_ranks:
        judged.doubts.append(f"rank {', '.join(map(str, step.missing_ranks))} took no part in it")
        judged.remaining = judge(replace(step, missing_ranks=[]), previous, asked)
        return
    bad, bad_updates = nonfinite(step)
    if bad and not bad_updates and _empty(readings, len(step.keys))[bad].all():
        judged.notes.append(words.NOT_FINITE_LEFT_OUT)
        step, bad = step.with_zeros(bad), []
    if bad or bad_updates:
        _judge_nonfinite(judged, step, readings, bad, asked)
        return
    fitted = observe(step, previous)
    looked_at = False
    while looked := _looked_at(fitted):  # without those that are alike, of others their coefficients are known
        fitted, looked_at = observe(fitted.step.without(looked), previous), True
    if looked_at:
        judged.notes.append("set aside: gradients that torch.autograd.grad returned and no update holds")
        readings = read_losses(fitted.step.backwards, asked.unit, fitted.step.used_KP)
        judged.micro_batch_count = len({micro_batch for _, micro_batch in fitted.step.keys})
    if added_up_before(fitted):
        judged.unmeasured.append(ADDED_UP_BEFORE)
    else:
        _judge_fitted(judged, fitted, readings, asked)


def _looked_at(fitted: Fitted) -> list[int]:
    """Contributions of torch.autograd.grad that are in no update beside others that are: they were only looked at."""
    rules = [rule for rule in (_rule_of(o, fitted) for o in fitted.observations) if rule is not None]
    grads = [k for k, backward in enumerate(fitted.step.backwards) if backward.via == "grad"]
    if not grads or not rules or len(grads) == len(fitted.step.backwards):
        return []
    found = [patterns.presence(rule.coefficients_K, rule.errors_K, fitted.nonzero_K) for rule in rules]
    twins = multiples(fitted.step, grads)
    return [k for k in grads if k in twins or all(p.gone[k] or not fitted.nonzero_K[k] for p in found)]


def _judge_nonfinite(judged: Judged, step: Step, readings: Readings, bad: list[int], asked: Asked) -> None:
    empty = _empty(readings, len(step.keys))
    guilty = [k for k in bad if empty[k]]
    if not guilty:
        judged.doubts.append("the gradients were not finite (nan or inf)")
        return
    where = words.contribution(*step.keys[guilty[0]])
    judged.faults.append(
        Fault(
            "nonfinite",
            {Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION},
            words.empty_is_nan(where, asked.noun),
            cells=_bare_cells(step, readings),
        )
    )


def _empty(readings: Readings, size: int) -> Mask:
    """Contributions whose losses were seen and count no unit at all."""
    terms = readings.alternatives[0] if readings.alternatives else []
    has, units = np.zeros(size, dtype=bool), np.zeros(size)
    for term in terms:
        has |= term.has_K
        units += term.counts_K
    empty: Mask = has & (units == 0)
    return empty


def _bare_cells(step: Step, readings: Readings) -> list[Cell]:
    terms = readings.alternatives[0] if readings.alternatives else []
    counts = [next((float(term.counts_K[k]) for term in terms if term.has_K[k]), None) for k in range(len(step.keys))]
    return [
        Cell(rank=rank, micro_batch=batch, count=count) for (rank, batch), count in zip(step.keys, counts, strict=True)
    ]


def _judge_fitted(judged: Judged, fitted: Fitted, readings: Readings, asked: Asked) -> None:
    judged.residual = max((c.solution.residual for o in fitted.observations for c in o.clusters[:1]), default=None)
    signs = _surroundings(fitted)
    _judge_left(judged, fitted, signs)
    main = _main(judged, fitted, signs)
    judge_other_parameters(judged, fitted, main, signs)
    judge_partials(judged, fitted, signs)
    judge_tied(judged, fitted)
    _judge_same(judged, fitted, signs)
    if main is not None:
        judge_weights(judged, Scene(fitted, main, signs, asked), readings)
    judge_gathered(judged, fitted)
    judge_norms(judged, fitted)
    judge_rates(judged, fitted.step)
    tell_calls(judged, fitted)
    tell_held_apart(judged, fitted, main)
    judged.unjudged = _unjudged(fitted)


def _unjudged(fitted: Fitted) -> set[str]:
    left = np.any([o.unexplained | o.untouched for o in fitted.observations], axis=0)
    return {fitted.step.parameters[p].name for p in np.flatnonzero(left)}


def _judge_left(judged: Judged, fitted: Fitted, signs: set[Sign]) -> None:
    """What no rule explains: the step before (a fault), nothing that was captured (not measured), or nothing at all."""
    names = [parameter.name for parameter in fitted.step.parameters]
    _note_hooks(judged, fitted, names)
    judge_carried(judged, fitted)
    untouched = np.any([o.untouched for o in fitted.observations], axis=0)
    if untouched.any():
        judged.unmeasured.append(
            f"{int(untouched.sum())} parameters were stepped on gradients that did not come through autograd "
            f"({words.listed([names[p] for p in np.flatnonzero(untouched)])})"
        )
    left = np.any([o.unexplained for o in fitted.observations], axis=0)
    left = left & ~_set_aside_by_order(judged, fitted, left, names)
    left = left & ~judge_exchanged(judged, fitted, left, signs)
    if left.any() and not judge_shards(judged, fitted, left, signs):
        _judge_unexplained(judged, fitted, left, names)


def _set_aside_by_order(judged: Judged, fitted: Fitted, left: Mask, names: list[str]) -> Mask:
    """Copies that may be those of other parameters accuse nobody."""
    by_order = frozenset[str]().union(*(part.beside.by_order for part in fitted.step.parts))
    found: Mask = left & np.array([name in by_order for name in names], dtype=bool)
    if found.any():
        judged.unmeasured.append(copy_words.by_order([names[p] for p in np.flatnonzero(found)]))
    return found


def _note_hooks(judged: Judged, fitted: Fitted, names: list[str]) -> None:
    hooked = np.any([o.hooked for o in fitted.observations], axis=0)
    if hooked.any():
        touched = words.listed([names[p] for p in np.flatnonzero(hooked)])
        judged.notes.append(f"the script's own hooks change the gradient of {touched} on each rank")


def _judge_unexplained(judged: Judged, fitted: Fitted, left: Mask, names: list[str]) -> None:
    touched = [names[p] for p in np.flatnonzero(left)]
    small = fitted.products.row_counts[left].sum() < 2 * fitted.regressor_count + 2
    if small:
        judged.doubts.append(f"too few numbers to tell which rule they follow: {words.listed(touched)}")
        return
    hooks = sorted({hook for backward in fitted.step.backwards for hook in backward.path.get("hooks", [])})
    judged.unexplained.append(words.unexplained(touched, fitted.step.extent, hooks))


def _surroundings(fitted: Fitted) -> set[Sign]:
    """What is known of the job beside the coefficients."""
    step = fitted.step
    signs = crossings(step) | ({Sign.SINGLE_RANK} if len(step.ranks) == 1 else set())
    if len({batch for _, batch in step.keys}) == 1:
        signs.add(Sign.SINGLE_MICRO_BATCH)
    paths = [backward.path for backward in step.backwards]
    signs.add(Sign.DDP_PRESENT if any(paths) else Sign.NO_DDP)
    if step.weights_equal is False:
        signs |= {
            Sign.REPLICAS_DIFFER,
            Sign.REPLICAS_DIFFER_AT_START if step.number == 1 else Sign.REPLICAS_DIFFER_LATER,
        }
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


def _main(judged: Judged, fitted: Fitted, signs: set[Sign]) -> Main | None:
    """The rule that the ranks follow together; None where each steps on its own, which is judged here."""
    rules = [rule for rule in (_rule_of(o, fitted) for o in fitted.observations) if rule is not None]
    if not rules:
        if not (judged.faults or judged.doubts or judged.unmeasured or judged.unexplained):
            judged.doubts.append("no parameter got an update that is not zero")
        return None
    if len(rules) > 1 and _judge_apart(judged, fitted, signs):
        return None
    main = rules[0]
    missing, which = patterns.missing(
        patterns.presence(main.coefficients_K, main.errors_K, fitted.nonzero_K), fitted.step.keys
    )
    if Sign.FIRST_RANK_ONLY in missing:
        missing = _one_rank(main, len(fitted.step.ranks))
    if which == fitted.step.ranks and Sign.RANK_MISSING in missing:
        judged.faults.append(Fault("missing all", set(signs), words.NOTHING_ARRIVES, cells=cells(fitted, main)))
        judged.notes.append(words.ZEROED)
        return replace(main, signs=missing)
    if missing:
        sentence = words.missing(missing, which, judged.micro_batch_count)
        judged.faults.append(Fault(f"missing {sorted(missing)}", signs | missing, sentence, cells=cells(fitted, main)))
        return replace(main, signs=missing)
    return main


def _one_rank(main: Main, ranks: int) -> set[Sign]:
    """One rank's gradient is all there is: broadcast where it counts in full, else a mean without the others."""
    in_full = abs(float(np.abs(main.coefficients_K).max()) - 1) < 0.01
    if ranks > 2:
        return {Sign.FIRST_RANK_ONLY}
    return {Sign.FIRST_RANK_ONLY, Sign.RANK_MISSING} if in_full else {Sign.RANK_MISSING}


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
    if any(own) and (local := _locally_stepped(fitted, alike=not all(own))):
        told = signs | {Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS}
        sentence = words.local_parameters(local, fitted.step.extent)
        judged.faults.append(Fault("local parameters", told, sentence, parameters=local))
    elif all(own):
        fault = _pattern(Sign.OWN_RANK_ONLY, signs, words.OWN_RANK_ONLY, fitted, first)
        judged.faults.append(replace(fault, parameters=_moved(fitted)))
    elif any(tails):
        judged.faults.append(_pattern(Sign.UNSYNCHRONISED_TAIL, signs, words.UNSYNCHRONISED_TAIL, fitted, first))
    elif _apart(vectors, errors):
        judged.faults.append(
            Fault("apart", set(signs), _apart_words(fitted, vectors), cells=cells(fitted, _rule_of(first, fitted)))
        )
    else:
        return False
    return True


def _moved(fitted: Fitted) -> list[str]:
    """The parameters whose update is not zero; [] where it is so of all."""
    moved = np.add.reduceat(fitted.step.updates_RL != 0, fitted.step.starts[:-1], axis=1).any(axis=0)
    return [] if moved.all() else [fitted.step.parameters[p].name for p in np.flatnonzero(moved)]


def _apart_words(fitted: Fitted, vectors: list[Floats]) -> str:
    """What is said of ranks that step apart: by groups, where each holds what its own ranks have and no more."""
    groups = [observation.ranks for observation in fitted.observations]
    rules = [rule for rule in (_rule_of(o, fitted) for o in fitted.observations) if rule is not None]
    shown = [patterns.presence(rule.coefficients_K, rule.errors_K, fitted.nonzero_K) for rule in rules]
    if len(shown) == len(groups) and all(map(patterns.group_only, shown, [fitted.step.keys] * len(shown), groups)):
        return step_words.groups_apart(groups)
    return step_words.ranks_apart(vectors)


def _locally_stepped(fitted: Fitted, *, alike: bool) -> list[str]:
    """Parameters that are not reduced, where others are; [] where none is, or not the same on all ranks (`alike`)."""
    keys = fitted.step.keys
    locals_OP, reduced = np.zeros((len(fitted.observations), len(fitted.step.parameters)), dtype=bool), False
    for row, observation in enumerate(fitted.observations):
        for cluster in observation.clusters:
            solution = cluster.solution
            found = patterns.presence(solution.coefficients, solution.errors, fitted.nonzero_K)
            if patterns.own_only(found, keys, observation.ranks[0]):
                locals_OP[row] |= cluster.parameters
            else:
                reduced = True
    if not reduced or (alike and (locals_OP != locals_OP[0]).any()):
        return []
    return [fitted.step.parameters[p].name for p in np.flatnonzero(locals_OP.any(axis=0))]


def _apart(vectors: list[Floats], errors: list[Floats]) -> bool:
    for vector, error in zip(vectors[1:], errors[1:], strict=True):
        limit = np.maximum(0.01 * np.abs(vectors[0]).max(initial=0), 6 * (error + errors[0]))
        if (np.abs(vector - vectors[0]) > limit).any():
            return True
    return False


def _pattern(sign: Sign, signs: set[Sign], sentence: str, fitted: Fitted, observation: Observation) -> Fault:
    return Fault(str(sign), signs | {sign}, sentence, cells=cells(fitted, _rule_of(observation, fitted)))


def _judge_same(judged: Judged, fitted: Fitted, signs: set[Sign]) -> None:
    """Contributions that are equal: of several ranks on the same targets a fault, of one rank a thing to know."""
    keys, backwards = fitted.step.keys, fitted.step.backwards
    for members in fitted.same:
        ranks = sorted({keys[k][0] for k in members})
        prints = {backwards[k].fingerprints for k in members}
        same_targets = len(prints) == 1 and prints != {frozenset()}
        everywhere = len(ranks) == len(fitted.step.ranks) > 1
        if len(ranks) > 1 and (same_targets or everywhere):
            sentence = words.same_data(ranks if not everywhere else [], same_targets)
            kind = "same" if same_targets else "same gradient"
            judged.faults.append(Fault(kind, signs | {Sign.SAME_CONTRIBUTIONS}, sentence))
            return
        if len(ranks) == 1 and same_targets:
            judged.doubts.append(words.batch_repeated(len(members)))
            return
