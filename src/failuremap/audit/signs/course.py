"""What no step shows by itself: how the weights of the steps that are clear go together.

the total weight at steps that ranks have left for good   P/R: the divisor counts all that started
a total weight that changes from step to step             N/N': the divisor is the count of other units
a second term whose total goes by the window's length     M: it lacks the division that the main term has

Legend: N units of the window, N' other units, M micro-batches of the window, P ranks that are left, R that started.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from failuremap.audit.faults import Asked, Fault, Judged
from failuremap.audit.sentences import words
from failuremap.audit.signs.factors import of_one_model
from failuremap.catalogue.signs import Sign

# relative difference up to which factors count as the same
_SAME = 0.01
# steps from which on a course is no chance
_STEPS = 3
# ranks whose own count is tried as the divisor of all
_RANKS = 8


def judge_course(judged: Sequence[Judged], asked: Asked, complete: Collection[int]) -> None:
    """Adds the faults that several steps show together to these steps.

    Args:
        judged: All steps of the job.
        asked: What was promised.
        complete: Ranks all of whose backward passes came before some step.
    """
    if asked.promise == "mean":
        _judge_departed(judged, asked, complete)
        _judge_borrowed(judged, asked)
    _judge_second_terms(judged)


def _judge_departed(judged: Sequence[Judged], asked: Asked, complete: Collection[int]) -> None:
    whole = [step for step in judged if not step.missing_ranks]
    gone: list[Judged] = []
    for step in reversed(judged):
        later = set(gone[-1].missing_ranks) if gone else set(step.missing_ranks)
        if not step.missing_ranks or not set(step.missing_ranks) <= later & set(complete):
            break
        gone.append(step)
    if not whole or any(step.faults for step in whole) or len(whole) + len(gone) < len(judged):
        return
    for step in gone:
        share = step.rank_count / (step.rank_count + len(step.missing_ranks))
        total = _total(step.remaining)
        if total is not None and abs(total / share - 1) <= _SAME:
            sentence = words.departed(step.missing_ranks, total, asked)
            cells = step.remaining.cells if step.remaining is not None else []
            step.doubts = []
            step.faults = [Fault("departed", {Sign.DEPARTED_RANK_COUNTED}, sentence, total=total, cells=cells)]


def _total(step: Judged | None) -> float | None:
    """The total weight of a step whose units weigh the same and of which nothing is open."""
    if step is None or step.doubts or step.unexplained or step.unmeasured or not step.totals:
        return None
    return step.totals.get(step.main_term) if all(fault.kind == "total" for fault in step.faults) else None


def _judge_borrowed(judged: Sequence[Judged], asked: Asked) -> None:
    clear = [step for step in judged if len(step.cells) > 1 and step.unit_count > 0 and _is_clear(step)]
    alike = [(held, term) for held in of_one_model(clear) for term in dict.fromkeys(step.main_term for step in held)]
    for held, term in alike:
        steps = [step for step in held if step.main_term == term]
        divisors = [step.unit_count / (step.factor or 1.0) for step in steps]
        others = {whose: [count(steps, index) for index in range(len(steps))] for whose, count in _OTHER_COUNTS.items()}
        whose = next((whose for whose, counts in others.items() if _explains(counts, divisors, steps)), "")
        for step in steps if whose else ():
            _tell_borrowed(step, whose, asked)


def _is_clear(step: Judged) -> bool:
    return not (step.faults or step.doubts or step.unexplained or step.unmeasured)


def _of_micro_batch(place: int) -> Callable[[Sequence[Judged], int], float | None]:
    """The units of one micro-batch on all ranks, times the micro-batches of the window."""

    def count(steps: Sequence[Judged], index: int) -> float | None:
        cells = steps[index].cells
        if any(cell.count is None for cell in cells):  # the term is not in every micro-batch
            return None
        chosen = sorted({cell.micro_batch for cell in cells})[place]
        counts = [cell.count for cell in cells if cell.micro_batch == chosen]
        return steps[index].micro_batch_count * sum(count or 0.0 for count in counts)

    return count


def _of_window(offset: int) -> Callable[[Sequence[Judged], int], float | None]:
    """The units of the window so many steps on."""

    def count(steps: Sequence[Judged], index: int) -> float | None:
        return steps[index + offset].unit_count if 0 <= index + offset < len(steps) else None

    return count


def _of_rank(rank: int, *, times_ranks: bool) -> Callable[[Sequence[Judged], int], float | None]:
    """The units of one rank's window, times the ranks where these are averaged."""

    def count(steps: Sequence[Judged], index: int) -> float | None:
        cells = steps[index].cells
        if any(cell.count is None for cell in cells):
            return None
        counts = [cell.count or 0.0 for cell in cells if cell.rank == rank]
        ranks = len({cell.rank for cell in cells})
        return sum(counts) * (ranks if times_ranks else 1) if counts and ranks > 1 else None

    return count


_OTHER_COUNTS = {
    "the first micro-batch, times the micro-batches": _of_micro_batch(0),
    "the last micro-batch, times the micro-batches": _of_micro_batch(-1),
    "the window before": _of_window(-1),
    "the window after": _of_window(1),
    **{f"rank {rank}, times the ranks": _of_rank(rank, times_ranks=True) for rank in range(_RANKS)},
    **{f"rank {rank}": _of_rank(rank, times_ranks=False) for rank in range(_RANKS)},
}


def _explains(others: Sequence[float | None], divisors: Sequence[float], steps: Sequence[Judged]) -> bool:
    """At every step that can be compared the divisor is this count, which is often not that of the step's own units."""
    pairs = [(other, d, step.unit_count) for other, d, step in zip(others, divisors, steps, strict=True) if other]
    unlike = [own for other, _, own in pairs if abs(other / own - 1) > 2 * _SAME]
    alike = all(abs(divisor / (other or 1.0) - 1) <= _SAME for other, divisor, _ in pairs)
    # a count that is always the same part of the step's own says no more than a factor of the script's
    return len(pairs) >= _STEPS and len(unlike) >= 2 and alike and not _same([other / own for other, _, own in pairs])


def _tell_borrowed(step: Judged, whose: str, asked: Asked) -> None:
    total = step.factor or 1.0
    if abs(total - 1) > _SAME:
        sentence = words.borrowed(whose, total, asked)
        step.faults.append(Fault("borrowed", {Sign.BORROWED_COUNT}, sentence, total=total, cells=step.cells))


def _judge_second_terms(judged: Sequence[Judged]) -> None:
    clear = [step for step in judged if step.totals and step.factor is None and _is_clear(step)]
    if len(clear) < _STEPS:
        return
    for term in dict.fromkeys(term for step in clear for term in step.totals):
        steps = [step for step in clear if term in step.totals and term != step.main_term]
        totals = [step.totals[term] for step in steps]
        by_window = [total / step.micro_batch_count for total, step in zip(totals, steps, strict=True)]
        if len(steps) >= _STEPS and _same(by_window) and not _same(totals):
            for step in steps:
                sentence = words.grows_with_window(term, step.totals[term], step.micro_batch_count)
                fault = Fault(
                    "second term", {Sign.TERM_GROWS_WITH_WINDOW}, sentence, total=step.totals[term], term=term
                )
                step.faults.append(fault)


def _same(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= _SAME * max(map(abs, values))
