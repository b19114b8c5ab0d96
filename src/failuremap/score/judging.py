"""Judges many candidates, several at once in processes of their own, and keeps every verdict as it comes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

from failuremap.score.judge import judge
from failuremap.score.results import Result, Season, open_results
from failuremap.score.suite import Candidates, Sample, Suite
from failuremap.score.verdict import Verdict

OnResult = Callable[[Result], None]
Judge = Callable[[Sample], Verdict]


def judge_samples(samples: Iterable[Sample], judge_sample: Judge, on_result: OnResult, *, job_count: int = 1) -> None:
    """Judges samples and hands on each result as it comes; stopped by the user, it hands on those under way first.

    Args:
        samples: What to judge.
        judge_sample: Sample -> verdict; it may run in another process, so it is a function of a module.
        on_result: Gets each result, in the order in which they come.
        job_count: How many at once.
    """
    waiting = list(samples)
    if job_count == 1:
        for sample in waiting:
            on_result(_result(sample, judge_sample(sample)))
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of this process's threads
    with ProcessPoolExecutor(min(job_count, len(waiting) or 1), mp_context=context, initializer=_begin) as pool:
        left = {pool.submit(judge_sample, sample): sample for sample in waiting}
        try:
            _hand_on(left, on_result)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            _hand_on(left, on_result)
            raise


def judge_candidates(
    candidates: Candidates,
    on_result: OnResult,
    *,
    out: Path | None = None,
    key: bytes | None = None,
    job_count: int = 1,
    trust_candidate: bool = False,
) -> tuple[Season, list[Result]]:
    """Judges what a folder holds for a suite, but for what a file of results has already.

    Args:
        candidates: What to judge.
        on_result: Gets each new result, once it is kept.
        out: The file of results, which grows; without one nothing is kept.
        key: What the held-back fixtures are drawn from; without one that of the file, or a new one, which it reveals.
        job_count: How many at once.
        trust_candidate: Run them without a box where no sound one opens.

    Raises:
        InvalidArgument: The file can't be used, or the sealed suite has no key.
    """
    with (
        tempfile.TemporaryDirectory(prefix="failuremap-") as folder,
        open_results(out or Path(folder) / "results.jsonl", candidates.suite, key) as results,
    ):
        judge_sample = partial(_judge, suite=candidates.suite, key=results.key, trust_candidate=trust_candidate)
        missing = [sample for sample in candidates.samples if not results.known(sample)]

        def keep(result: Result) -> None:
            results.append(result)
            on_result(result)

        judge_samples(missing, judge_sample, keep, job_count=job_count)
        return results.season, results.of(candidates.samples)


def _judge(sample: Sample, suite: Suite, key: bytes, trust_candidate: bool) -> Verdict:
    verdict = judge(sample.path, sample.case, key=key, trust_candidate=trust_candidate)
    return sealed(verdict) if suite == "sealed" else verdict


def sealed(verdict: Verdict) -> Verdict:
    """Takes out of a verdict what tells an input: of a sealed case none is public.

    Example:
        >>> verdict = Verdict(outcome="wrong", sentence="solve([1]) gives 2", case="FM-031", clauses={"mean": False})
        >>> sealed(verdict).sentence
        'It breaks the contract: mean.'
    """
    told = verdict.model_copy(update={"counterexample": None})
    if verdict.outcome != "wrong":
        return told
    broken = ", ".join(name for name, held in verdict.clauses.items() if held is False)
    return told.model_copy(update={"sentence": f"It breaks the contract: {broken}."})


def _hand_on(left: dict[Future[Verdict], Sample], on_result: OnResult) -> None:
    for future in as_completed(list(left)):
        sample = left.pop(future)
        if not future.cancelled():
            on_result(_result(sample, _verdict(sample, future)))


def _verdict(sample: Sample, future: Future[Verdict]) -> Verdict:
    try:
        return future.result()
    except BrokenProcessPool:
        sentence = "The judge's process was ended from outside, which says nothing of the candidate."
        return Verdict(outcome="judge-error", sentence=sentence, case=sample.case, mechanism=sample.family)


def _result(sample: Sample, verdict: Verdict) -> Result:
    return Result(system=sample.system, family=sample.family, case=sample.case, sample=sample.number, verdict=verdict)


def _begin() -> None:
    """Leaves Ctrl-C to the process that collects the results, and ends this one with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
