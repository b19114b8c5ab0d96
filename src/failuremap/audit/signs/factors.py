"""A factor on the whole update that no rule explains: the script's own, or a sign of something? Only its course tells.

the same at every step               the script's own weight of its loss
below 1 where the norm is the limit  clipping, written by hand
any, where the norm is always one    a norm that the script gives the update
in step with the number of units     a sum, divided by something fixed
otherwise                            cannot tell
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from failuremap.audit.faults import Fault, Judged, Story
from failuremap.audit.sentences import step_words, words
from failuremap.audit.signs.carried import judge_momentum
from failuremap.catalogue.signs import Sign

# relative difference up to which factors, and norms, count as the same
_SAME = 0.01
# factors that it takes to say that one met a known one by chance, on a ramp or where all updates have one norm
_MANY = 4
# signs of faults that come and go with the batches
_OF_SOME_WINDOWS = frozenset((Sign.EMPTY_CONTRIBUTION, Sign.IDLE_UNITS_COUNTED))


def judge_factors(story: Story) -> tuple[list[str], list[str]]:
    """Reasons why the job cannot be called right for its factors, and notes on those that can be explained."""
    reasons, notes = judge_momentum(story.judged)
    for steps in map(_with_known_norms, _by_term(story)):
        factors = [step.factor or 1.0 for step in steps]
        if not factors or _same(factors):
            continue
        clipped = [step for step in steps if step.factor is not None and step.factor < 1 - _SAME]
        norms = [step.norm for step in clipped if step.norm is not None]
        whole = [step.factor or 1.0 for step in steps if step not in clipped]
        lengths = [step.norm for step in steps if step.norm is not None]
        if len(clipped) > 1 and len(norms) == len(clipped) and _same(norms) and _same([1.0, *whole]):
            notes.append(words.clipped_by_hand(norms[0], len(clipped)))
        elif _same([factor / step.unit_count for factor, step in zip(factors, steps, strict=True)]):
            reasons.append(words.fixed_divisor(factors[0] / steps[0].unit_count, story.noun))
        elif _may_be_given_a_norm(steps) and len(lengths) == len(steps) and _same(lengths):
            notes.append(step_words.normalised(lengths[0], len(steps)))
        else:
            reasons.append(words.changing_factor(min(factors), max(factors), story.noun))
    return reasons, notes


def met_by_chance(story: Story, seen: Sequence[tuple[Judged, Fault]]) -> bool:
    """Whether a factor that a known fault leaves is one of many that the script's own passes through.

    A clip by hand, or a norm that the script gives the update, is the same there as elsewhere; other factors, such as
    those of a denominator that counts something else, lie above it and below; a ramp begins at some and ends at 1.
    """
    sizes, terms = {step.micro_batch_count for step, _ in seen}, {fault.term for _, fault in seen}
    alike = [
        step
        for step in story.judged
        if not step.faults and step.micro_batch_count in sizes and {step.main_term} == terms
    ]
    own = [step for step in alike if step.factor is not None]
    factors = [step.factor or 1.0 for step in own]
    totals = [fault.total or 1.0 for _, fault in seen]
    idle = any(fault.signs & _OF_SOME_WINDOWS for _, fault in seen)
    whole = [step for step in alike if step.factor is None and step.cells]
    if len(whole) > 1 and factors and not idle and _distinct([1.0, *factors, *totals]) >= _MANY:
        return True
    shown = (*own, *(step for step, _ in seen))
    norms = [step.norm for step in shown if step.norm is not None]
    changes = len(own) > 1 and not _same(factors) and (max(factors + totals) < 1 - _SAME or _may_be_given_a_norm(own))
    if changes and len(norms) == len(shown) and _same(norms):
        return True
    factors += [total for step in story.judged for total in _nameless(step, sizes, terms)]
    return len(factors) >= max(2, len(seen)) and all(min(factors) < total < max(factors) for total in totals)


def _may_be_given_a_norm(steps: Sequence[Judged]) -> bool:
    """Whether one norm at all of these steps would be the script's doing: there are several, and no clip of torch's."""
    return len(steps) >= _MANY and not any(step.clip_seen for step in steps)


def _nameless(step: Judged, sizes: set[int], terms: set[str | None]) -> list[float]:
    """Totals of units that weigh differently, by no rule that has a name: these go by the data."""
    of_it = step.faults if step.micro_batch_count in sizes else []
    return [f.total or 1.0 for f in of_it if f.kind == "weights" and not f.followed and {f.term} == terms]


def _distinct(values: Sequence[float]) -> int:
    """How many values there are that differ."""
    ordered = sorted(values)
    return 1 + sum(not _same([first, second]) for first, second in pairwise(ordered))


def _by_term(story: Story) -> Iterator[list[Judged]]:
    """The clear steps with more than one contribution, by the term that they were judged by, and the optimizer."""
    clear = [step for step in story.judged if step.cells and not (step.faults or step.doubts or step.unexplained)]
    # of a loss that was seen in part no total is judged
    clear = [step for step in clear if step.factor is not None or not step.unmeasured]
    for steps in of_one_model([step for step in clear if len(step.cells) > 1 and step.unit_count > 0]):
        for term in dict.fromkeys(step.main_term for step in steps):
            yield [step for step in steps if step.main_term == term]


def of_one_model(steps: Sequence[Judged]) -> list[list[Judged]]:
    """The steps, those on parameters that have nothing in common apart, as those of a generator and a critic have."""
    held: list[set[str]] = []
    for step in steps:
        touched = [names for names in held if names & step.names]
        held = [names for names in held if not names & step.names] + [set(step.names).union(*touched)]
    return [[step for step in steps if step.names <= names] for names in held]


def _with_known_norms(steps: list[Judged]) -> list[Judged]:
    """Without those read in part that may have been clipped by hand: of these no length is known."""
    return [step for step in steps if not (step.in_part and step.norm is None and (step.factor or 1.0) < 1 - _SAME)]


def _same(values: list[float]) -> bool:
    return max(values) - min(values) <= _SAME * max(map(abs, values))
