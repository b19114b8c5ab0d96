"""Whether the ranks step equally far: their learning rates, and steps that one of them leaves out alone."""

from __future__ import annotations

from failuremap.audit.faults import Fault, Judged, Story
from failuremap.audit.sentences import step_words
from failuremap.audit.steps.story import Part
from failuremap.audit.steps.windows import Step
from failuremap.catalogue.signs import Sign

# relative difference up to which learning rates count as the same
_SAME = 1e-6


def judge_rates(judged: Judged, step: Step) -> None:
    """Judges parameters that the ranks step on with different learning rates.

    Args:
        judged: Gets a fault where they do.
        step: The step; nothing is judged of ranks that do not tell their rates.
    """
    by_rank = {part.rank: part.beside.rates for part in step.parts}
    names = [parameter.name for parameter in step.parameters]
    apart = [name for name in names if _apart([rates.get(name) for rates in by_rank.values()])]
    if apart:
        shown = {rank: rate for rank, rates in by_rank.items() if (rate := rates.get(apart[0])) is not None}
        sentence = step_words.rates_apart(shown, apart, step.extent)
        judged.faults.append(Fault("rates", {Sign.STEPS_DIFFER}, sentence, parameters=apart))


def _apart(rates: list[float | None]) -> bool:
    known = [rate for rate in rates if rate is not None]
    return len(known) > 1 and max(known) - min(known) > _SAME * max(map(abs, known))


def left_out_alone(story: Story, before: int) -> list[tuple[int, int]]:
    """(rank, step) for steps before this one that a rank left out and the others took.

    It went backward as often as they did, so it had the gradient, and it stepped again later.
    """
    passes = {rank.rank: _last_pass(rank.parts) for rank in story.ranks}
    most = max(passes.values(), default=-1)
    return [
        (rank, step.number)
        for index, step in enumerate(story.judged)
        for rank in (step.missing_ranks if step.number < before else ())
        if passes.get(rank) == most and any(rank not in later.missing_ranks for later in story.judged[index + 1 :])
    ]


def _last_pass(parts: list[Part]) -> int:
    return max((backward.id for part in parts for backward in part.backwards), default=-1)
