"""Windows that were read in part: what they may say, and what the verdict owes the reader about the rest.

faults        count, as at any step; where steps read in full show faults, others of the same length add none
doubts        set the step aside: a few parameters settle less than all
the others    a step that is set aside and is unlike all judged ones leaves the verdict open
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from failuremap.audit.faults import Fault, Judged, Story
from failuremap.audit.steps.story import Rank

NEVER_READ = (
    "parameters were stepped on for the first time in the last steps, of which a few parameters were read only; "
    "audit with --every 1"
)

Kinds = dict[str, list[tuple[Judged, Fault]]]


def set_aside(judged: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
    """Parts the steps that count from those that were read in part and settle nothing."""
    unsettled = [step for step in judged if step.in_part and step.doubts and not step.missing_ranks and not step.faults]
    return [step for step in judged if step not in unsettled], unsettled


def without_repeats(kinds: Kinds, story: Story) -> Kinds:
    """Drops faults that a few parameters show under another name than all of them do."""
    in_full = {kind for kind, seen in kinds.items() if any(not step.in_part for step, _ in seen)}
    if not in_full:
        return kinds
    sizes = {step.micro_batch_count for step in story.in_full}
    return {
        kind: seen
        for kind, seen in kinds.items()
        if kind in in_full or any(step.micro_batch_count not in sizes for step, _ in seen)
    }


def best_seen(seen: list[tuple[Judged, Fault]]) -> list[tuple[Judged, Fault]]:
    """The faults of steps read in full; all of them where there are none."""
    return [(step, fault) for step, fault in seen if not step.in_part] or seen


def reasons(story: Story) -> list[str]:
    """Why a job cannot be called right for steps that were set aside."""
    sizes = {step.micro_batch_count for step in story.judged}
    unlike = [step for step in story.unjudged if step.micro_batch_count not in {0, *sizes}]
    numbers = ", ".join(str(step.number) for step in unlike[:3])
    found = [not_settled(numbers, unlike[0].micro_batch_count, unlike[0].doubts[0])] if unlike else []
    return found + ([NEVER_READ] if any(map(_never_read, story.ranks)) else [])


def _never_read(rank: Rank) -> bool:
    """Whether parameters came that no later step of their optimizer shows, because the job ended."""
    last = {part.optimizer: place for place, part in enumerate(rank.parts) if not part.in_part}
    return any(part.new and last.get(part.optimizer, -1) < place for place, part in enumerate(rank.parts))


def notes(story: Story) -> list[str]:
    """What was not measured, in one line; nothing where every step was read in full."""
    part = [step for step in story.judged if step.in_part]
    if not part and not story.unjudged:
        return []
    most = max((len(step.names) for step in part), default=0)
    steps = len(story.judged) + len(story.unjudged)
    told = [not_measured(len(story.in_full), steps, most, len(story.names))] if most < len(story.names) else []
    why = Counter(step.doubts[0] for step in story.unjudged).most_common(1)
    return told + [set_aside_for(len(story.unjudged), reason) for reason, _ in why]


def not_measured(in_full: int, steps: int, chosen: int, parameters: int) -> str:
    """Of how many steps all parameters were read."""
    return (
        f"{in_full} of {steps} steps were measured on all parameters, the others on {chosen} of {parameters}: "
        "what happens to the rest at those steps was not measured (--every 1 measures all)"
    )


def set_aside_for(count: int, reason: str) -> str:
    """Steps that a few parameters do not settle."""
    which = "1 step that was read in part is" if count == 1 else f"{count} steps that were read in part are"
    return f"{which} not judged: {reason}"


def not_settled(numbers: str, size: int, reason: str) -> str:
    """A window unlike all others that was not seen well enough."""
    return (
        f"step {numbers} has {size} micro-batches, unlike all that were judged, and was read in part only: {reason}; "
        "audit with --every 1"
    )
