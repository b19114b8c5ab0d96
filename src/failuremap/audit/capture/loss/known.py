"""Losses of libraries that are autograd functions: their arguments say what they count, as those of torch's losses do.

Nothing else tells it where such a function computes its gradients in forward and keeps these alone. The unit's loss may
hold more than a cross entropy (smoothed labels, soft caps, a penalty on the logsumexp): it is the same for all units.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

# what Liger's functions are called with; an argument that is not among these may change what a unit weighs
_LIGERS = frozenset(
    """ctx _input weight target bias ce_weight ignore_index lse_square_scale label_smoothing reduction softcap
    return_z_loss accum_dtype use_token_scaling return_token_accuracy return_predicted_tokens ce_impl ce_mode
    chunk_mem_const""".split()
)


class NotTold(Exception):
    """A call whose arguments do not say what a unit weighs."""


def arguments_of(function: type, args: tuple[Any, ...], kwargs: dict[str, Any], node: Any) -> dict[str, Any] | None:
    """The arguments as those of torch's cross entropy; None for a function, or a way to call it, that is not known.

    Args:
        function: A subclass of torch.autograd.Function.
        args: What it was applied to.
        kwargs: The same, by name.
        node: Of the graph, that it made.
    """
    read = _READ.get((function.__module__.partition(".")[0], function.__name__))
    if read is None:
        return None
    try:
        bound = inspect.signature(function.forward).bind(None, *args, **kwargs)  # type: ignore[attr-defined]
        bound.apply_defaults()
        found = read(bound.arguments, node)
    except (KeyError, AttributeError, TypeError, NotTold):  # another version of the library
        return None
    return found if found["reduction"] in ("mean", "sum", "none") else None


def _liger(given: dict[str, Any], node: Any) -> dict[str, Any]:
    # versions that do not put the gradients of single tokens off multiply all of them by that of the first
    if given["reduction"] == "none" and not node.defer_grads:
        raise NotTold
    if given.get("use_token_scaling"):  # every token by its own probability
        raise NotTold
    return {**_common(given), "input": given["weight"].t(), "weight": given["ce_weight"]}


def _liger_on_logits(given: dict[str, Any], _: Any) -> dict[str, Any]:
    return {**_common(given), "input": given["_input"], "weight": given["weight"]}


def _common(given: dict[str, Any]) -> dict[str, Any]:
    if not _LIGERS.issuperset(given):
        raise NotTold
    return {name: given[name] for name in ("target", "ignore_index", "reduction")}


_READ: dict[tuple[str, str], Callable[[dict[str, Any], Any], dict[str, Any]]] = {
    ("liger_kernel", "LigerFusedLinearCrossEntropyFunction"): _liger,
    ("liger_kernel", "LigerCrossEntropyFunction"): _liger_on_logits,
}
