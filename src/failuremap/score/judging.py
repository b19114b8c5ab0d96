"""Judges many candidates at once, each in a process of its own, and keeps every verdict as it comes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial

from failuremap.score.judge import judge
from failuremap.score.limits import Limits
from failuremap.score.results import Result
from failuremap.score.suite import Sample, Suite
from failuremap.score.verdict import Verdict

OnResult = Callable[[Result], None]
Judge = Callable[[Sample], Verdict]


def judge_samples(samples: Iterable[Sample], judge_sample: Judge, on_result: OnResult, *, job_count: int = 1) -> None:
    """Judges samples and hands on each result as it comes; stopped by the user, it hands on those under way first.

    Args:
        samples: What to judge.
        judge_sample: Sample -> verdict; it runs in another process, so it is a function of a module.
        on_result: Gets each result, in the order in which they come.
        job_count: How many at once.
    """
    waiting = list(samples)
    if not waiting:
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of this process's threads
    with ProcessPoolExecutor(min(job_count, len(waiting)), mp_context=context, initializer=_begin) as pool:
        left = {pool.submit(judge_sample, sample): sample for sample in waiting}
        try:
            _hand_on(left, on_result)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            _hand_on(left, on_result)
            raise


def suite_judge(suite: Suite, key: bytes, limits: Limits, *, trust_candidate: bool = False) -> Judge:
    """Returns what judges the samples of a suite; of a sealed case it tells no input, not even one of its checks."""
    return partial(_judge, suite=suite, key=key, limits=limits, trust_candidate=trust_candidate)


def _judge(sample: Sample, suite: Suite, key: bytes, limits: Limits, trust_candidate: bool) -> Verdict:
    verdict = judge(sample.path, sample.case, key=key, limits=limits, trust_candidate=trust_candidate)
    return sealed(verdict) if suite == "sealed" else verdict


def sealed(verdict: Verdict) -> Verdict:
    """Takes out of a verdict what tells an input: of a sealed case none is public.

    Example:
        >>> verdict = Verdict(outcome="wrong", sentence="solve([1]) gives 2", case="FM-031", clauses={"mean": False})
        >>> sealed(verdict).sentence
        'It breaks the contract: mean.'
    """
    if verdict.outcome != "wrong":
        return verdict
    broken = ", ".join(name for name, held in verdict.clauses.items() if held is False)
    return verdict.model_copy(update={"counterexample": None, "sentence": f"It breaks the contract: {broken}."})


def _hand_on(left: dict[Future[Verdict], Sample], on_result: OnResult) -> None:
    for future in as_completed(list(left)):
        sample = left.pop(future)
        if not future.cancelled():
            on_result(_result(sample, future))


def _result(sample: Sample, future: Future[Verdict]) -> Result:
    try:
        verdict = future.result()
    except BrokenProcessPool:
        sentence = "The judge's process was ended from outside, which says nothing of the candidate."
        verdict = Verdict(outcome="judge-error", sentence=sentence, case=sample.case, mechanism=sample.family)
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
