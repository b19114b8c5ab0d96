"""Jobs that say their contributions themselves, as those in JAX do: what their word leaves open, and how it is told.

A contribution that was watched is a rank's own, and of whole parameters. One that was said may be the sum over all
ranks already, and a parameter may be a part of a larger one. Neither is a fault of the job, and neither can be judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from failuremap.audit.faults import Judged
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.sentences import words
from failuremap.audit.steps.windows import Step
from failuremap.audit.trace import Trace

VIA = "told"
ADDED_UP_BEFORE = (
    "all devices said the same contribution: it was added up over them before contribution(), or all of them read one "
    "batch; say each device's own gradient"
)
APART = (
    "parameters are not the same on all devices when the job begins: each holds a part of them, which isn't measured "
    "in JAX, or the devices start from different ones"
)
_IN_JAX = {
    words.NO_STEP: "no optimizer step was seen: wrap the optimizer, failuremap.audit.jax.watched(optimizer)",
    words.NO_GRADIENT: "no contribution was said before it: grads = failuremap.audit.jax.contribution(grads, count)",
}
_TOTAL = "grads, total = failuremap.aggregate.jax.weighted_mean(grads, count, axis)"
_ACCUMULATED = (
    "optimizer = failuremap.aggregate.jax.accumulate(optimizer, every_k) in place of optax.MultiSteps, and "
    "optimizer.update(grads, state, params, count=total)"
)
_REPAIRS = {
    "replica-means-ignore-counts": f"Weigh each device by the units that its loss is a mean over: {_TOTAL}",
    "mean-of-microbatch-means": f"Weigh each micro-batch by its units, total: {_ACCUMULATED}",
    "never-synchronised": f"Reduce the gradients before the optimizer gets them: {_TOTAL}",
    "replicas-summed": (
        "Reduce once, by jax.lax.pmean(grads, axis), where the loss of each device is a mean over as many units; where "
        f"counts differ {_TOTAL}"
    ),
}


def is_told(step: Step) -> bool:
    """Whether the script itself said all contributions of a step."""
    return bool(step.backwards) and all(backward.via == VIA for backward in step.backwards)


def added_up_before(fitted: Fitted) -> bool:
    """Whether all ranks said one and the same contribution."""
    step = fitted.step
    everywhere = [{step.keys[k][0] for k in members} == set(step.ranks) for members in fitted.same]
    return len(step.ranks) > 1 and is_told(step) and any(everywhere)


def starts_apart(step: Step) -> bool:
    """Whether the ranks of a job that says its contributions have other weights each; asked of its first step."""
    return is_told(step) and step.weights_equal is False


def leave_open(judged: Sequence[Judged]) -> None:
    """Lets nothing be found in a job whose ranks start apart: they may hold parts of one model."""
    for step in judged:
        step.faults.clear()
        step.unmeasured.append(APART)


def in_words_of(traces: Sequence[Trace], sentence: str) -> str:
    """The sentence, in the words of the framework that the traces come from."""
    return _IN_JAX.get(sentence, sentence) if _is_jax(traces) else sentence


def repair_of(traces: Sequence[Trace], slug: str, repair: str) -> str:
    """The repair of a mechanism, in the words of the framework that the traces come from."""
    return _REPAIRS.get(slug, repair) if _is_jax(traces) else repair


def _is_jax(traces: Sequence[Trace]) -> bool:
    return bool(traces) and str(traces[0].header.get("framework", "")).startswith("jax")
