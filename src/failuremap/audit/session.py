"""One audit from start to end: run the job, diagnose its trace, and fold the job's ending into the verdict."""

from __future__ import annotations

import contextlib
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from failuremap.audit import launch
from failuremap.audit.launch.job import LAUNCHERS
from failuremap.audit.launch.looking import looking
from failuremap.audit.model import Verdict
from failuremap.audit.trace import read_folder
from failuremap.errors import TraceError

Promise = Literal["mean", "sum"]
# what audit/live.py, which the supervisor of each rank must not import, leaves in the trace folder
WRONG = "wrong.json"


def audit(job: launch.Job, unit: str | None = None, promise: Promise = "mean") -> Verdict:
    """Run a job and say what it did with its gradients.

    Args:
        job: What to run; its trace folder exists and is empty.
        unit: What the loss counts: token, example or sequence; None: found out from the losses.
        promise: The rule that the job should follow.
    """
    return judge(job, run(job, unit, promise), unit, promise)


def run(job: launch.Job, unit: str | None, promise: Promise) -> launch.Ending:
    """Run a job to its end; one that is to stop at its first wrong step is looked at while it runs."""
    looked_at = looking(job.trace_dir, unit, promise) if job.stop_on_wrong else contextlib.nullcontext()
    with looked_at:
        return launch.run(job)


def judge(job: launch.Job, ending: launch.Ending, unit: str | None, promise: Promise) -> Verdict:
    """Diagnose the trace of a job that has ended; a script that failed outranks whatever the trace says."""
    if job.reference is not None and not ending.failed:
        job.reference.run(job.trace_dir, job.timeout)
    verdict = _diagnose(job.trace_dir, unit, promise)
    told: dict[str, Any] = {"script": shlex.join(job.argv), "script_exit_code": ending.exit_code}
    if ending.failed and _only_aborted_at_exit(job.trace_dir, ending):
        note = f"{ending.sentence} when its training had ended and its interpreter shut down (Gloo's threads do that)"
        told["notes"] = [*verdict.notes, note]
    elif ending.failed and verdict.outcome == "wrong" and job.stop_on_wrong and (job.trace_dir / WRONG).exists():
        told["notes"] = [*verdict.notes, "the job was stopped at its first wrong step, as --stop-on-wrong asks"]
    elif ending.failed:
        notes = [f"Until then: {verdict.sentence}", *verdict.notes, *_started_once(job, verdict)]
        sentence = f"{ending.sentence[0].upper()}{ending.sentence[1:]}."
        told |= {"outcome": "script failed", "sentence": sentence, "notes": notes}
    return verdict.model_copy(update=told)


def _started_once(job: launch.Job, verdict: Verdict) -> list[str]:
    """What helps where a script that waits for ranks was started without any."""
    if job.nproc is not None or verdict.evidence.step_count or Path(job.argv[0]).name in LAUNCHERS:
        return []
    return ["the script was started once; where it needs RANK and WORLD_SIZE, --nproc 2 starts two ranks of it"]


def _only_aborted_at_exit(folder: Path, ending: launch.Ending) -> bool:
    """Whether all ranks came to the end of their traces, and some were aborted after that, in the teardown.

    Threads of Gloo that are still there when Python shuts down end in "terminate called without an active exception",
    with and without an audit.
    """
    aborted = not (ending.timed_out or ending.interrupted) and set(ending.exit_codes) <= {0, -signal.SIGABRT}
    if not aborted:
        return False
    try:
        traces = read_folder(folder)
    except TraceError:
        return False
    return bool(traces) and all(trace.end is not None for trace in traces)


def with_runs_below(verdict: Verdict, folder: Path) -> Verdict:
    """Add where other runs lie, so that an earlier one, or none, is not taken for what its user meant."""
    below = sorted({str(path.parent) for path in folder.glob("**/*.trace")} - {str(folder)})
    if not below:
        return verdict
    kind = "notes" if verdict.evidence.step_count else "reasons"
    found = f"other runs lie in {', '.join(below[:5])}: diagnose each by its own folder"
    return verdict.model_copy(update={kind: [*getattr(verdict, kind), found]})


def without_ranks(verdict: Verdict, missing: Sequence[int], folder: Path, seconds: float) -> Verdict:
    """Lower a verdict to "cannot tell" because the supervisors of some ranks were not heard of."""
    ranks = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
    reason = (
        f"R{ranks[1:]} left no word in {str(folder)!r} within {seconds:.0f} s. "
        "Usual causes: (a) the ranks run on several machines; (b) they have different parent processes; (c) they hang. "
        "For (a) and (b) give all ranks the same folder, which all of them see: --trace DIR."
    )
    if verdict.outcome not in ("right", "wrong"):
        return verdict.model_copy(update={"reasons": [*verdict.reasons, reason]})
    told = {
        "outcome": "cannot tell",
        "sentence": f"Not all ranks were heard: {ranks} {'are' if len(missing) > 1 else 'is'} missing.",
        "findings": [],
        "reasons": [reason, *verdict.reasons],
        "notes": [f"From the ranks that were heard: {verdict.sentence}", *verdict.notes],
    }
    return verdict.model_copy(update=told)


def _diagnose(folder: Path, unit: str | None, promise: Promise) -> Verdict:
    """Diagnose, and let a trace that can't be read be a reason: the script ran, so its user is owed an outcome."""
    from failuremap.audit import diagnose

    try:
        return diagnose(folder, unit=unit, promise=promise)
    except TraceError as error:
        sentence = "The trace of the run can't be read."
        return Verdict(outcome="not measured", sentence=sentence, promise=promise, reasons=[str(error)])
