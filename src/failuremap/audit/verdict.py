"""All steps together: one verdict, a pure function of the traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from failuremap.audit import words
from failuremap.audit.faults import Asked, Fault, Judged
from failuremap.audit.judge import judge
from failuremap.audit.model import Candidate, Evidence, Finding, Verdict
from failuremap.audit.shares import even_enough
from failuremap.audit.trace import Trace, read_folder
from failuremap.audit.windows import Assembler, Rank, Step, read_rank
from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.recognise import recognise
from failuremap.catalogue.signs import Sign
from failuremap.rules import KNOWN

Promise = Literal["mean", "sum"]
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
    "local",
    "weights",
    "total",
)

# signs of what changes with the data from step to step
_CHANGING = {Sign.CLIPPED_BEFORE_REDUCTION}


def diagnose(folder: Path, *, unit: str | None = None, promise: Promise = "mean") -> Verdict:
    """Reads the traces in a folder and says what the job did with its gradients.

    Args:
        folder: What `failuremap audit --trace DIR` wrote: one file a rank.
        unit: token, example or sequence; None: what the losses count, named by the model's first layer.
        promise: The rule that the job should follow over units.

    Raises:
        TraceError: The folder does not exist, or its traces cannot be read together.
    """
    traces = [trace for trace in read_folder(Path(folder)) if trace.header]
    if not traces:
        return _nothing(
            unit, promise, "no process of the job recorded anything: no optimizer step was seen, or torch was not used"
        )
    noun = unit or str(traces[0].header.get("unit", "token"))
    ranks = [read_rank(trace) for trace in traces]
    world_size = int(traces[0].header["world_size"])
    judged, last = _judge_all(ranks, world_size, unit, noun, promise)
    return _Summary(traces, ranks, world_size, judged, last, noun, promise).verdict()


def _nothing(unit: str | None, promise: Promise, reason: str) -> Verdict:
    return Verdict(
        outcome="not measured",
        sentence="Nothing was measured.",
        unit=unit or "token",
        promise=promise,
        reasons=[reason],
    )


def _judge_all(
    ranks: list[Rank], world_size: int, unit: str | None, noun: str, promise: Promise
) -> tuple[list[Judged], Step | None]:
    windows = Counter(sum(b.id not in part.discarded for b in part.backwards) for rank in ranks for part in rank.parts)
    full = max(windows, key=lambda size: (windows[size], size), default=1)
    judged, previous = [], dict[frozenset[str], Step]()
    step = None
    for step in Assembler(ranks, world_size).steps():
        names = frozenset(parameter.name for parameter in step.parameters)
        before = next((old for old_names, old in previous.items() if old_names & names), None)
        judged.append(judge(step, before, Asked(unit, noun, promise, max(full, 1))))
        previous = {old_names: old for old_names, old in previous.items() if not old_names & names} | {names: step}
    return judged, step


class _Summary:
    """Puts the steps together."""

    def __init__(
        self,
        traces: list[Trace],
        ranks: list[Rank],
        world_size: int,
        judged: list[Judged],
        last: Step | None,
        noun: str,
        promise: Promise,
    ) -> None:
        self.traces, self.ranks, self.world_size = traces, ranks, world_size
        self.judged, self.last, self.noun, self.promise = judged, last, noun, promise
        self.names = frozenset[str]().union(*(step.names for step in judged))

    def verdict(self) -> Verdict:
        findings = self._findings()
        reasons = self._reasons()
        notes = self._notes()
        if findings:
            outcome, sentence = "wrong", findings[0].sentence
        elif reasons:
            outcome, sentence = ("not measured" if self._unmeasured() else "cannot tell"), self._no_verdict()
        else:
            outcome, sentence = "right", self._right()
        shown = self._shown()
        return Verdict(
            outcome=outcome, sentence=sentence, unit=self.noun, promise=self.promise, findings=findings,  # type: ignore[arg-type]
            reasons=reasons, notes=notes, cells=findings[0].cells if findings and findings[0].cells else (shown.cells if shown else []),
            cells_step=findings[0].cells_step if findings and findings[0].cells else (shown.number if shown else None),
            evidence=self._evidence(),
        )  # fmt: skip

    # ---- findings

    def _findings(self) -> list[Finding]:
        kinds: dict[str, list[tuple[Judged, Fault]]] = {}
        for step in self.judged:
            for fault in step.faults:
                kinds.setdefault(f"{fault.kind} {fault.term or ''}", []).append((step, fault))
        local_sgd = self._weights_made_equal()
        found = [
            self._finding(seen) for kind, seen in kinds.items() if not (local_sgd and kind.startswith("own-rank-only"))
        ]
        replicas = self._replicas(bool(found) or local_sgd)
        found += [replicas] if replicas else []
        return [finding for _, finding in sorted(found, key=lambda pair: pair[0])]

    def _finding(self, seen: list[tuple[Judged, Fault]]) -> tuple[int, Finding]:
        worst_step, worst = max(seen, key=lambda pair: (pair[1].ratio or 0.0) if pair[1].ratio != float("inf") else 1e9)
        candidates = self._candidates([fault for _, fault in seen])
        parameters = sorted({name for step, fault in seen for name in fault.parameters or step.names})
        parameters = parameters if len(parameters) < len(self.names) else []
        place = next((index for index, start in enumerate(_ORDER) if worst.kind.startswith(start)), len(_ORDER))
        return place, Finding(
            sentence=worst.sentence, candidates=[_candidate(mechanism) for mechanism in candidates],
            followed=self._followed(worst, candidates), promised=self._title(_PROMISED[self.promise]),
            steps=sorted({step.number for step, _ in seen}), parameters=parameters[:20],
            parameter_count=len(parameters) or len(self.names), ratio=worst.ratio, total_weight=worst.total, term=worst.term,
            effect=worst.effect, cells=worst.cells, cells_step=worst_step.number,
            repair=candidates[0].repair if candidates else "",
        )  # fmt: skip

    def _candidates(self, faults: Sequence[Fault]) -> list[Mechanism]:
        """The mechanisms that fit at every step; where none does, those that fit most often."""
        steady = _steady([fault.ratio for fault in faults])
        per_step = [
            recognise(f.followed, f.signs - _CHANGING if steady else f.signs, promise=self.promise) for f in faults
        ]
        by_slug = {mechanism.slug: mechanism for found in per_step for mechanism in found}
        times = Counter(mechanism.slug for found in per_step for mechanism in found)
        most = max(times.values(), default=0)
        return [by_slug[slug] for slug, count in sorted(times.items()) if count == most]

    def _followed(self, fault: Fault, candidates: list[Mechanism]) -> str:
        if fault.followed:
            named = {rule for mechanism in candidates for rule in mechanism.followed}
            return self._title(next((rule for rule in fault.followed if rule in named), fault.followed[0]))
        rules = [rule for mechanism in candidates for rule in mechanism.followed]
        return self._title(rules[0]) if rules else "no rule that has a name here"

    def _title(self, rule: str) -> str:
        return KNOWN[rule].title.format(unit=self.noun)

    def _replicas(self, explained: bool) -> tuple[int, Finding] | None:
        """Weights that should be equal and are not, where nothing else found says why."""
        apart = [step for step in self.judged if step.weights_equal is False]
        names = apart[0].differing if apart else self._differing_at_end()
        if not names:
            return None
        at_start = bool(apart) and apart[0].number == 1
        if explained and not at_start:
            return None
        count = max((step.all_parameters for step in self.judged), default=len(names))
        number = apart[0].number if apart else len(self.judged) + 1
        sentence = (
            words.replicas_differ_at_start(names, count)
            if at_start
            else words.replicas_differ_later(names, count, number)
        )
        signs = {Sign.REPLICAS_DIFFER, Sign.REPLICAS_DIFFER_AT_START if at_start else Sign.REPLICAS_DIFFER_LATER}
        candidates = recognise([], signs, promise=self.promise)
        return (2 if at_start else len(_ORDER)), Finding(
            sentence=sentence, candidates=[_candidate(mechanism) for mechanism in candidates], followed="replicas that differ",
            promised="replicas that are equal", steps=[step.number for step in apart], parameters=names[:20],
            parameter_count=len(names), repair=candidates[0].repair if candidates else "",
        )  # fmt: skip

    def _differing_at_end(self) -> list[str]:
        if len(self.ranks) < 2 or any(rank.final_weights is None for rank in self.ranks):
            return []
        return sorted(_final_differences(self.ranks))

    def _weights_made_equal(self) -> bool:
        """Replicas that differed before a step and were equal again before a later one."""
        apart: set[str] = set()
        for step in self.judged:
            healed = apart & (step.names - set(step.differing))
            if healed and not step.differing:
                return True
            apart |= set(step.differing)
        return False

    # ---- why not

    def _reasons(self) -> list[str]:
        reasons = list(self._broken_traces())
        if not self.judged:
            return [*reasons, "no optimizer step was seen: audit a script that steps a torch.optim optimizer"]
        if self._weights_made_equal():
            reasons.append(words.LOCAL_SGD)
        reasons += self._counted([reason for step in self.judged for reason in step.unmeasured])
        doubtful = [step for step in self.judged if step.doubts]
        if len(doubtful) * 2 > len(self.judged):
            reasons += self._counted([reason for step in doubtful for reason in step.doubts])
        clear = [step for step in self.judged if not step.doubts and not step.unmeasured]
        error = max((step.relative_error for step in clear), default=0.0)
        if clear and not even_enough(error, len(clear)):
            reasons.append(
                f"coefficients are known to {words.number(error)} only (gradients in a small type, or much alike), too coarse to call "
                f"weights equal; audit more steps"
            )
        return list(dict.fromkeys(reasons))

    def _counted(self, reasons: list[str]) -> list[str]:
        times = Counter(reasons)
        return [f"{reason} ({count} of {len(self.judged)} steps)" for reason, count in times.most_common(5)]

    def _broken_traces(self) -> list[str]:
        here = {trace.rank for trace in self.traces}
        reasons = [f"rank {rank} left no trace" for rank in range(self.world_size) if rank not in here][:8]
        for trace in self.traces:
            if trace.torn:
                reasons.append(f"the trace of rank {trace.rank} is torn: {trace.torn} of {trace.path.name}")
            elif trace.end is None:
                reasons.append(
                    f"rank {trace.rank} did not come to its end (killed, os._exit, or the disk was full): its trace has no end"
                )
        return reasons

    def _unmeasured(self) -> bool:
        return not self.judged or any(step.unmeasured for step in self.judged)

    def _no_verdict(self) -> str:
        if not self.judged:
            return "Nothing was measured: no optimizer step was seen."
        if self._unmeasured():
            return "Not measured: what was seen is not enough for a verdict."
        return "Cannot tell whether the gradients are added up right."

    # ---- right

    def _right(self) -> str:
        what = f"the {self.promise} over all {self.noun}s"
        return f"Every {self.noun} weighs the same: the update is {what}."

    def _notes(self) -> list[str]:
        notes = self._counted([note for step in self.judged for note in step.notes])
        clear = [step for step in self.judged if not step.faults and not step.doubts and step.cells]
        if clear and all(step.equal_counts for step in clear) and len(clear[0].cells) > 1:
            notes.append(
                f"all counts were equal: a rule that ignores counts would have given the same; try {self.noun} counts that differ"
            )
        doubtful = [step for step in self.judged if step.doubts]
        if doubtful and len(doubtful) * 2 <= len(self.judged):
            notes.append(
                f"step {', '.join(str(s.number) for s in doubtful[:5])} could not be told: {doubtful[0].doubts[0]}"
            )
        notes += [f"rank {rank.rank}: {note}" for rank in self.ranks for note in rank.notes]
        left = sum(rank.left_over for rank in self.ranks)
        if left:
            notes.append(f"{left} backward passes came before no optimizer step")
        absent = sorted({name for rank in self.ranks for part in rank.parts for name in part.absent})
        if absent:
            notes.append(f"{len(absent)} parameters had no gradient at some step: {words.listed(absent)}")
        errors = [error for trace in self.traces for error in (trace.end or {}).get("errors", [])]
        if errors:
            notes.append(f"the audit itself met {len(errors)} errors, the first: {errors[0]}")
        hooks = sorted({hook for trace in self.traces for hook in (trace.end or {}).get("comm_hooks", [])})
        return notes + ([f"communication hook: {', '.join(hooks)}"] if hooks else [])

    def _shown(self) -> Judged | None:
        return next(
            (step for step in self.judged if step.cells and not step.doubts),
            next((s for s in self.judged if s.cells), None),
        )

    def _evidence(self) -> Evidence:
        judged = self.judged
        residuals = [step.residual for step in judged if step.residual is not None]
        windows = Counter(step.micro_batch_count for step in judged)
        return Evidence(
            first_step=judged[0].number if judged else None, last_step=judged[-1].number if judged else None, step_count=len(judged),
            rank_count=self.world_size, micro_batch_count=max(windows, key=lambda size: windows[size], default=0),
            parameter_count=len(self.names - set().union(*(step.unjudged for step in judged))), parameter_total=len(self.names), residual=max(residuals, default=None),
            coefficient_error=max((step.relative_error for step in judged), default=None),
            losses_seen=sum(step.losses_seen for step in judged), losses_total=sum(step.losses_total for step in judged),
            loss_sites=sorted({site for step in judged for site in step.sites})[:10],
        )  # fmt: skip


def _steady(ratios: Sequence[float | None]) -> bool:
    """The same ratio at several steps: nothing that depends on the data."""
    known = [ratio for ratio in ratios if ratio is not None]
    return len(known) > 2 and max(known) - min(known) <= 0.002 * max(known)


def _candidate(mechanism: Mechanism) -> Candidate:
    return Candidate(slug=mechanism.slug, title=mechanism.title, separated_by=mechanism.separated_by)


def _final_differences(ranks: list[Rank]) -> set[str]:
    """Parameters whose weights differ between ranks at the end of the job."""
    import numpy as np

    held: list[dict[str, object]] = []
    for rank in ranks:
        chunk, at, found = rank.final_weights, 0, {}
        assert chunk is not None
        for id in chunk.ids:
            parameter = rank.parameters[id]
            found[parameter.name] = chunk.numbers[at : at + parameter.rows]
            at += parameter.rows
        held.append(found)
    common = set.intersection(*(set(found) for found in held))
    return {
        name for name in common for other in held[1:]
        if np.shape(other[name]) != np.shape(held[0][name]) or not np.allclose(other[name], held[0][name], rtol=1e-5, atol=1e-30, equal_nan=True)  # type: ignore[arg-type]
    }  # fmt: skip
