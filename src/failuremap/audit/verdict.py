"""All steps together: one verdict, a pure function of the traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from failuremap.audit.compared.comparison import with_reference
from failuremap.audit.compared.reference import read_reference
from failuremap.audit.faults import Asked, Judged, Promise, Story
from failuremap.audit.findings import dealt_out, findings, made_equal, split_by_hand
from failuremap.audit.judge import judge
from failuremap.audit.live import Look
from failuremap.audit.model import Evidence, Finding, Outcome, Verdict
from failuremap.audit.sentences import call_words, loss_words, step_words, words
from failuremap.audit.signs import sampled
from failuremap.audit.signs.course import judge_course
from failuremap.audit.signs.factors import judge_factors
from failuremap.audit.signs.replicas import final_agreement
from failuremap.audit.signs.told import in_words_of, leave_open, starts_apart
from failuremap.audit.steps import unstepped
from failuremap.audit.steps.handed_on import read_ranks
from failuremap.audit.steps.stages import micro_batches
from failuremap.audit.steps.story import Rank
from failuremap.audit.steps.windows import Assembler, Step
from failuremap.audit.trace import Trace, read_folder
from failuremap.audit.weighing.shares import even_enough

# what capture failed at, where a part of the job went unseen
_ESSENTIAL = tuple(
    "on_gradient on_step on_loss backward _open_pass _close_pass flush_backward collective finish "
    "contribution watched".split()
)


def diagnose(folder: Path, *, unit: str | None = None, promise: Promise = "mean") -> Verdict:
    """Reads the traces in a folder and says what the job did with its gradients.

    Args:
        folder: What `failuremap audit --trace DIR` wrote: one file a rank.
        unit: token, example or sequence; None: what the losses count, named by what the model looks like.
        promise: The rule that the job should follow over units.

    Raises:
        TraceError: The folder does not exist, or its traces cannot be read together.
    """
    traces = [trace for trace in read_folder(Path(folder)) if trace.header]
    if not traces:
        return Verdict(
            outcome="not measured",
            sentence=words.NOTHING,
            unit=unit or "token",
            promise=promise,
            reasons=_not_started(Path(folder)),
        )
    ranks = read_ranks(traces)
    story = _story(traces, ranks, unit, promise)
    asked = Asked(unit, story.noun, promise, _full_window(ranks))
    steps = Assembler(ranks, story.world_size).steps()
    return _verdict(with_reference(story, read_reference(Path(folder)), steps, asked))


def _story(traces: list[Trace], ranks: list[Rank], unit: str | None, promise: Promise) -> Story:
    world_size = int(traces[0].header["world_size"])
    noun = unit or _noun(ranks, str(traces[0].header.get("unit", "token")))
    judged = _judge_all(ranks, world_size, Asked(unit, noun, promise, _full_window(ranks)))
    judged, unjudged = sampled.set_aside(judged)
    return Story(traces, ranks, world_size, judged, noun, promise, unjudged)


def so_far(folder: Path, unit: str | None, promise: Promise) -> Look:
    """Judges the steps that all ranks of a job that still runs have written down.

    Raises:
        TraceError: The traces cannot be read together.
    """
    traces = [trace for trace in read_folder(folder) if trace.header]
    if not traces:
        return Look()
    missing = set(range(int(traces[0].header["world_size"]))) - {trace.rank for trace in traces}
    ranks = read_ranks(traces)
    steps = max((part.count + 1 for rank in ranks for part in rank.parts), default=0)
    common = min(len(rank.parts) for rank in ranks)
    if missing or not common:
        return Look(step_count=steps, missing_ranks=sorted(missing))
    ranks = [replace(rank, parts=rank.parts[:common], final_weights=None) for rank in ranks]
    story = _story(traces, ranks, unit, promise)
    return Look(story.judged, findings(story), steps)


def _not_started(folder: Path) -> list[str]:
    """Why no process recorded anything."""
    told = sorted({path.read_text(errors="replace")[:300] for path in folder.glob("not-started-*.txt")})
    nothing = "no process of the job recorded anything: no gradient and no optimizer step was seen"
    return [f"capture did not start in a process of the job: {why}" for why in told] or [nothing]


def _noun(ranks: list[Rank], guess: str) -> str:
    """What one unit is called: tokens are what a loss over classes counts in a model that embeds.

    'element' where a loss counts several numbers for each example (a regression on vectors, say).
    """
    firsts = [[loss for part in rank.parts[:1] for b in part.backwards for loss in b.losses] for rank in ranks]
    losses = next((losses for losses in firsts if losses), [])
    said = {loss.get("unit") for loss in losses}
    if len(said) == 1 and (unit := said.pop()):
        return str(unit)
    if guess == "token" and any("classes" in loss or loss["function"] in ("count", "unit_losses") for loss in losses):
        return "token"
    several = any(loss.get("rows", 0) and loss["count"] > loss["rows"] for loss in losses)
    return "element" if several else ("example" if losses else guess)


def _full_window(ranks: list[Rank]) -> int:
    """Micro-batches of the usual window."""
    sizes = Counter(
        micro_batches([backward for backward in part.backwards if backward.id not in part.discarded])
        for rank in ranks
        for part in rank.parts
    )
    return max(1, max(sizes, key=lambda size: (sizes[size], size), default=1))


def _judge_all(ranks: list[Rank], world_size: int, asked: Asked) -> list[Judged]:
    judged: list[Judged] = []
    earlier: dict[frozenset[str], Step] = {}
    apart = False
    for step in Assembler(ranks, world_size).steps():
        apart = apart or (not judged and starts_apart(step))
        names = frozenset(parameter.name for parameter in step.parameters)
        before = next((old for held, old in earlier.items() if held & names), None)
        judged.append(judge(step, before, asked))
        earlier = {held: old for held, old in earlier.items() if not held & names} | {names: step}
    if apart:
        leave_open(judged)
    judge_course(judged, asked, {rank.rank for rank in ranks if not rank.left_over})
    return judged


def _verdict(story: Story) -> Verdict:
    found, reasons = findings(story), _reasons(story)
    shown = _shown(story)
    outcome, sentence = _outcome(story, found, reasons)
    cells = found[0].cells if found and found[0].cells else (shown.cells if shown else [])
    return Verdict(
        outcome=outcome,
        sentence=sentence,
        unit=story.noun,
        promise=story.promise,
        findings=found,
        reasons=reasons,
        notes=_notes(story),
        cells=cells,
        cells_step=found[0].cells_step if found and found[0].cells else (shown.number if shown else None),
        evidence=_evidence(story),
    )


def _outcome(story: Story, found: list[Finding], reasons: list[str]) -> tuple[Outcome, str]:
    if found:
        return "wrong", found[0].sentence
    if not story.judged:
        return "not measured", f"{words.NOTHING.removesuffix('.')}: no optimizer step was seen."
    if any(step.unmeasured for step in story.judged):
        return "not measured", words.NOT_ENOUGH
    if reasons:
        return "cannot tell", words.CANNOT_TELL
    plain = all(step.plain_sum for step in story.judged)
    factor = next((step.factor for step in story.judged if step.factor is not None), None)
    terms = max(len(step.totals) for step in story.judged)
    sentence = words.right(story.noun, "sum" if plain else story.promise, factor)
    if factor is not None and terms > 1:
        sentence = loss_words.right_by_terms(story.noun, terms)
    return "right", loss_words.apart(sentence) if any(step.apart for step in story.judged) else sentence


def _reasons(story: Story) -> list[str]:
    """Why the job cannot be called right; [] if it can."""
    reasons = [*story.open_reasons, *_broken_traces(story), *_own_failures(story), *unstepped.replaced(story.ranks)]
    if not story.judged:
        names, _ = final_agreement(story.ranks)
        apart = [step_words.end_apart(sorted(names))] if names else []
        return [*reasons, in_words_of(story.traces, words.NO_STEP), *apart]
    if made_equal(story):
        equal = any(step.weights_equal for step in story.judged[1:])
        reasons.append(words.LOCAL_SGD if equal else step_words.WEIGHTS_MIXED)
    reasons += [call_words.dealt_out(sorted(names))] if (names := dealt_out(story)) else []
    if split_by_hand(story):
        reasons.append(call_words.STAGES if story.judged[0].stages else call_words.ONE_MODEL)
    reasons += _counted(story, (reason for step in story.judged for reason in step.unmeasured))
    reasons += _counted(story, (reason for step in story.judged for reason in step.unexplained))
    reasons += _skipped(story) + sampled.reasons(story)
    reasons += judge_factors(story)[0]
    doubtful = [step for step in story.judged if step.doubts]
    if len(doubtful) * 2 > len(story.judged):
        reasons += _counted(story, (reason for step in doubtful for reason in step.doubts))
    clear = [step for step in story.in_full if not step.doubts and not step.unmeasured]
    error = max((step.relative_error for step in clear), default=0.0)
    if clear and not even_enough(error, len(clear)):
        reasons.append(words.too_coarse(error))
    return list(dict.fromkeys(reasons))


def _skipped(story: Story) -> list[str]:
    """Steps that a rank left to the others and came back from: a decision of its own."""
    reasons = []
    for index, step in enumerate(story.judged):
        later = story.judged[index + 1 :]
        back = [rank for rank in step.missing_ranks if any(rank not in other.missing_ranks for other in later)]
        if back:
            reasons.append(f"rank {', '.join(map(str, back))} skipped step {step.number}, which the others took")
    return reasons[:3]


def _counted(story: Story, sentences: Iterable[str]) -> list[str]:
    times = Counter(in_words_of(story.traces, sentence) for sentence in sentences)
    return [f"{sentence} ({count} of {len(story.judged)} steps)" for sentence, count in times.most_common(5)]


def _broken_traces(story: Story) -> list[str]:
    here = {trace.rank for trace in story.traces}
    reasons = [f"rank {rank} left no trace" for rank in range(story.world_size) if rank not in here][:8]
    for trace in story.traces:
        if trace.torn:
            reasons.append(f"the trace of rank {trace.rank} is torn: {trace.path.name} is {trace.torn}")
        elif trace.end is None:
            reasons.append(words.no_end(trace.rank))
    return reasons


def _errors(story: Story) -> list[str]:
    return [error for trace in story.traces for error in (trace.end or {}).get("errors", [])]


def _own_failures(story: Story) -> list[str]:
    essential = [error for error in _errors(story) if error.startswith(_ESSENTIAL)]
    return [f"the audit itself failed to see a part of the job: {error}" for error in essential[:1]]


def _notes(story: Story) -> list[str]:
    """What a reader should know and what accuses nobody."""
    notes = (
        _counted(story, (note for step in story.judged for note in dict.fromkeys(step.notes))) + judge_factors(story)[1]
    )
    notes += [*story.more_notes, *sampled.notes(story)]
    clear = [step for step in story.judged if not step.faults and not step.doubts and step.cells]
    if (
        clear
        and len(clear) == len(story.judged)
        and all(step.equal_counts for step in clear)
        and len(clear[0].cells) > 1
    ):
        notes.append(words.equal_counts(story.noun))
    doubtful = [step for step in story.judged if step.doubts]
    if doubtful and len(doubtful) * 2 <= len(story.judged):
        numbers = words.listed([str(step.number) for step in doubtful])
        notes.append(f"step {numbers} could not be told: {doubtful[0].doubts[0]}")
    notes += [f"rank {rank.rank}: {note}" for rank in story.ranks for note in rank.notes]
    left = sum(rank.left_over for rank in story.ranks)
    if left:
        notes.append(f"{left} backward passes came before no optimizer step")
    absent = sorted({name for rank in story.ranks for part in rank.parts for name in part.absent})
    if absent:
        many = "1 parameter" if len(absent) == 1 else f"{len(absent)} parameters"
        notes.append(f"{many} had no gradient at some step: {words.listed(absent)}")
    notes += unstepped.removed(story.ranks) + unstepped.beside(story.traces[0].path.parent)
    errors = [error for error in _errors(story) if not error.startswith(_ESSENTIAL)]
    if errors:
        notes.append(f"the audit itself met {len(errors)} errors, the first: {errors[0]}")
    hooks = sorted({hook for trace in story.traces for hook in (trace.end or {}).get("comm_hooks", [])})
    return notes + ([f"communication hook: {', '.join(hooks)}"] if hooks else [])


def _shown(story: Story) -> Judged | None:
    with_cells = [step for step in story.in_full if step.cells]
    return next((step for step in with_cells if not step.doubts), with_cells[0] if with_cells else None)


def _evidence(story: Story) -> Evidence:
    judged = story.judged
    windows = Counter(step.micro_batch_count for step in judged)
    unjudged = set[str]().union(*(step.unjudged for step in judged))
    return Evidence(
        first_step=judged[0].number if judged else None,
        last_step=judged[-1].number if judged else None,
        step_count=len(judged),
        steps_in_full=len(story.in_full),
        rank_count=story.world_size,
        micro_batch_count=max(windows, key=lambda size: windows[size], default=0),
        parameter_count=len(story.names - unjudged),
        parameter_total=len(story.names),
        residual=max((step.residual for step in judged if step.residual is not None), default=None),
        coefficient_error=max((step.relative_error for step in story.in_full), default=None),
        losses_seen=sum(step.losses_seen for step in judged),
        losses_total=sum(step.losses_total for step in judged),
        loss_sites=sorted({site for step in judged for site in step.sites})[:10],
    )
