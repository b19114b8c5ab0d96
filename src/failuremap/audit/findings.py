"""The faults of all steps together: one finding for each kind, with the mechanisms that fit it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from failuremap.audit.extent import Extent
from failuremap.audit.faults import Fault, Judged, Story
from failuremap.audit.model import Candidate, Finding
from failuremap.audit.sentences import step_words, words
from failuremap.audit.signs import sampled
from failuremap.audit.signs.factors import met_by_chance
from failuremap.audit.signs.rates import left_out_alone
from failuremap.audit.signs.replicas import final_agreement
from failuremap.audit.signs.told import repair_of
from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.recognise import recognise
from failuremap.catalogue.signs import Sign
from failuremap.rules import KNOWN

_PROMISED = {"mean": "weighted_mean", "sum": "unit_sum"}
# what is wrong with the way gradients travel comes before what is wrong with their weights
_ORDER = (
    "nonfinite",
    "own-rank-only",
    "missing",
    "unsynchronised-tail",
    "previous",
    "same",
    "clip",
    "shards",
    "local",
    "weights",
)
# signs of what changes with the data from step to step
_CHANGING = {Sign.CLIPPED_BEFORE_REDUCTION}
_MOST_NAMES = 20
# relative error of a coefficient, at most
_ROUNDING = 0.005


def findings(story: Story) -> list[Finding]:
    """All that is wrong, the finding to read first first."""
    kinds: dict[str, list[tuple[Judged, Fault]]] = {}
    for step in story.judged:
        for fault in step.faults:
            kinds.setdefault(f"{fault.kind} {fault.term or ''}", []).append((step, fault))
    # a factor that is R or M at one step and another at the next is chance (a clip of each tensor by its own norm)
    # so is a step that all ranks leave out by zeroing their gradients, and one gradient of a model that has died
    seldom = ("scaled", "missing all", "same gradient")
    kinds = {kind: seen for kind, seen in kinds.items() if not kind.startswith(seldom) or _is_often(story, seen)}
    kinds = {
        kind: seen for kind, seen in kinds.items() if not kind.startswith("total") or not met_by_chance(story, seen)
    }
    kinds = _without_silent_steps(sampled.without_repeats(kinds, story))
    averaged, split = made_equal(story), split_by_hand(story)
    if averaged or split:
        apart = (Sign.OWN_RANK_ONLY, *(("apart",) if split else ()))
        kinds = {kind: seen for kind, seen in kinds.items() if not kind.startswith(apart)}
    held = split | dealt_out(story)
    kinds = {kind: seen for kind, seen in kinds.items() if not (held and _concerns_only(held, seen))}
    found = [(_place(kind), _finding(story, seen)) for kind, seen in kinds.items()]
    replicas = _replicas(story, explained=bool(found) or averaged)
    if replicas is not None:
        found.append((_place("missing"), replicas))
    return [finding for _, finding in sorted(found, key=lambda pair: pair[0])]


def _without_silent_steps(kinds: dict[str, list[tuple[Judged, Fault]]]) -> dict[str, list[tuple[Judged, Fault]]]:
    """Without steps at which all that moved, or was read, is what other steps show to be stepped on alone.

    The gradient of all others may be zero at first, as that of an adapter whose second half is.
    """
    local = set[str]().union(*(fault.parameters for _, fault in kinds.get("local parameters ", ())))
    alone = kinds.get(f"{Sign.OWN_RANK_ONLY} ", [])
    kept = [(step, fault) for step, fault in alone if not set(fault.parameters or step.names) <= local]
    rest = {kind: seen for kind, seen in kinds.items() if seen is not alone}
    return {f"{Sign.OWN_RANK_ONLY} ": kept, **rest} if kept else rest


def _is_often(story: Story, seen: list[tuple[Judged, Fault]]) -> bool:
    """Whether most steps show a fault, or most of those that show all parameters."""
    return len(seen) >= 0.8 * len(story.judged) or (
        0 < 0.8 * len(story.in_full) <= sum(not step.in_part for step, _ in seen)
    )


def made_equal(story: Story) -> bool:
    """Whether replicas that differed before a step were equal again before a later one, as local SGD makes them."""
    apart: set[str] = set()
    for step in story.judged:
        if apart & step.names and step.weights_equal:
            return True
        apart |= set() if step.differ_by_rounding else set(step.differing)
    return _averaged_each_time(story)


def _averaged_each_time(story: Story) -> bool:
    """Whether the weights are averaged, or mixed, after every step that the ranks take on their own gradients."""
    alone = [
        after
        for before, after in pairwise(story.judged)
        if before.names & after.names and any(fault.kind == str(Sign.OWN_RANK_ONLY) for fault in before.faults)
    ]
    compared = [step for step in alone if step.weights_equal is not None]
    return bool(compared) and all(
        step.averages_weights if step.weights_equal else step.mixes_weights for step in compared
    )


def split_by_hand(story: Story) -> set[str]:
    """Parameters that are not the same on the ranks, of which each seems to hold a part of one model."""
    if story.judged and all(step.stages for step in story.judged):
        return set(story.names)
    if not story.judged or not all(step.one_model for step in story.judged):
        return set()
    first = story.judged[0]
    return set(first.differing if first.number == 1 else ()).union(*(step.held_by_some for step in story.judged))


def dealt_out(story: Story) -> set[str]:
    """Parameters that each rank seems to hold for itself: not the same from the start, and stepped on alone since."""
    first = story.judged[0] if story.judged else None
    if first is None or first.number != 1 or not all(step.own_alone for step in story.judged):
        return set()
    return set(first.differing).intersection(*(step.own_alone for step in story.judged))


def _concerns_only(names: set[str], seen: Sequence[tuple[Judged, Fault]]) -> bool:
    return all(fault.parameters and set(fault.parameters) <= names for _, fault in seen)


def _place(kind: str) -> int:
    return next((index for index, start in enumerate(_ORDER) if kind.startswith(start)), len(_ORDER))


def _finding(story: Story, seen: list[tuple[Judged, Fault]]) -> Finding:
    worst_step, worst = max(sampled.best_seen(seen), key=lambda pair: min(pair[1].ratio or 0.0, 1e9))
    ratios = [fault.ratio for _, fault in seen if fault.kind == "weights"]
    candidates = _candidates(story, [fault for _, fault in sampled.best_seen(seen)], ratios)
    parameters = sorted({name for step, fault in seen for name in fault.parameters or step.names})
    if len(parameters) == len(story.names):
        parameters = []
    return Finding(
        sentence=worst.sentence,
        candidates=[_candidate(mechanism) for mechanism in candidates],
        followed=_followed(story, worst, candidates),
        promised=_title(story, _PROMISED[worst.promise or story.promise]),
        steps=sorted({step.number for step, _ in seen}),
        parameters=parameters[:_MOST_NAMES],
        parameter_count=len(parameters) or len(story.names),
        parameters_read=_read([step.extent for step, _ in seen]),
        ratio=worst.ratio,
        total_weight=worst.total,
        term=worst.term,
        effect=worst.effect,
        cells=worst.cells,
        cells_step=worst_step.number,
        repair=repair_of(story.traces, candidates[0].slug, candidates[0].repair) if candidates else "",
    )


def _gains(fault: Fault) -> bool:
    """Whether a contribution weighs more than it does in a sum, which no clip makes of it."""
    return any((cell.coefficient or 0.0) > 1 + _ROUNDING for cell in fault.cells)


def _read(extents: Sequence[Extent]) -> int | None:
    """How many parameters were read, where no step shows all of them."""
    return None if any(extent.is_whole for extent in extents) else max(extent.read for extent in extents)


def _candidates(story: Story, faults: Sequence[Fault], ratios: Sequence[float | None]) -> list[Mechanism]:
    """The mechanisms that fit at every step; where none does, those that fit at most, half at least."""
    dropped = _CHANGING if _steady(ratios) or any(map(_gains, faults)) else set()
    dropped = dropped if _long_windows_stand_alone(story) else dropped | {Sign.LONG_WINDOW}
    evidence = [
        (tuple(fault.followed), frozenset(fault.signs - dropped | _of_the_job(story, fault)), fault.promise)
        for fault in faults
    ]
    found = {key: recognise(key[0], key[1], promise=key[2] or story.promise) for key in set(evidence)}
    per_step = [found[key] for key in evidence]
    by_slug = {mechanism.slug: mechanism for mechanisms in per_step for mechanism in mechanisms}
    times = Counter(mechanism.slug for mechanisms in per_step for mechanism in mechanisms)
    most = max(times.values(), default=0)
    fitting = [by_slug[slug] for slug, count in sorted(times.items()) if count == most and 2 * most >= len(faults)]
    return _of_short_windows(story, faults, fitting)


def _of_the_job(story: Story, fault: Fault) -> set[Sign]:
    """What other steps say of a fault: behind a nan, no coefficient tells what it was multiplied by."""
    weighed = any(step.weighed_by_counts for step in story.judged)
    has_units = any(cell.count for cell in fault.cells)
    return {Sign.WEIGHED_BY_COUNTS} if Sign.NONFINITE in fault.signs and weighed and has_units else set()


def _of_short_windows(story: Story, faults: Sequence[Fault], fitting: list[Mechanism]) -> list[Mechanism]:
    """Where full windows are right and short ones are wrong, what would show in full ones too is excluded."""
    short = [mechanism for mechanism in fitting if any(Sign.SHORT_WINDOW in signs for signs in mechanism.signs)]
    full = max(step.micro_batch_count for step in story.judged)
    right = any(step.micro_batch_count == full and not step.faults for step in story.judged)
    return short if short and right and all(Sign.SHORT_WINDOW in fault.signs for fault in faults) else fitting


def _long_windows_stand_alone(story: Story) -> bool:
    """Before each window that is longer than the usual one there is a usual one, as where an epoch's rest leaks."""
    sizes = [step.micro_batch_count for step in story.judged]
    usual = max(sizes, key=lambda size: (sizes.count(size), size))
    return all(size <= usual or (index > 0 and sizes[index - 1] == usual) for index, size in enumerate(sizes))


def _steady(ratios: Sequence[float | None]) -> bool:
    """The same ratio at several steps: nothing that depends on the data."""
    known = [ratio for ratio in ratios if ratio is not None]
    return len(known) > 2 and max(known) - min(known) <= 0.002 * max(known)


def _candidate(mechanism: Mechanism) -> Candidate:
    return Candidate(slug=mechanism.slug, title=mechanism.title, separated_by=mechanism.separated_by)


def _followed(story: Story, fault: Fault, candidates: list[Mechanism]) -> str:
    rules = [rule for mechanism in candidates for rule in mechanism.followed]
    if fault.followed:
        return _title(story, next((rule for rule in fault.followed if rule in rules), fault.followed[0]))
    return _title(story, rules[0]) if rules else "no rule that has a name here"


def _title(story: Story, rule: str) -> str:
    return KNOWN[rule].title.format(unit=story.noun)


def _replicas(story: Story, *, explained: bool) -> Finding | None:
    """Weights that should be equal and are not, where nothing else found says why, or a rank left a step out."""
    if not story.judged or any(step.unmeasured for step in story.judged):  # shards differ, and rightly so
        return None
    apart = [step for step in story.judged if step.differing and not step.differ_by_rounding]
    at_end, groups = (set[str](), apart[0].agreeing_ranks) if apart else final_agreement(story.ranks)
    names = apart[0].differing if apart else sorted(at_end)
    held_apart = (split_by_hand(story) | dealt_out(story)).union(*(step.experts for step in story.judged))
    names = [name for name in names if name not in held_apart]
    at_start = bool(apart) and apart[0].number == 1
    when = apart[0].number if apart else len(story.judged) + 1
    skipped = [] if made_equal(story) else left_out_alone(story, when)
    if not names or (explained and not at_start and not skipped):
        return None
    signs = {Sign.REPLICAS_DIFFER, Sign.REPLICAS_DIFFER_AT_START if at_start else Sign.REPLICAS_DIFFER_LATER}
    among = apart[0].extent if apart and apart[0].in_part else Extent(len(story.names), len(story.names))
    sentence = words.replicas_differ(names, among, when if apart else None) + step_words.agreeing(groups)
    if skipped:
        signs.add(Sign.STEPS_DIFFER)
        sentence = step_words.left_out_alone(skipped, sentence)
    candidates = recognise([], signs, promise=story.promise)
    return Finding(
        sentence=sentence,
        candidates=[_candidate(mechanism) for mechanism in candidates],
        followed="replicas that differ",
        promised="replicas that are equal",
        steps=[step.number for step in apart],
        parameters=names[:_MOST_NAMES],
        parameter_count=len(names),
        parameters_read=_read([among]),
        repair=candidates[0].repair if candidates else "",
    )
