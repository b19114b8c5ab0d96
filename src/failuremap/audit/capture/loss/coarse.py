"""What rounding makes of a gradient, and weights where it is so much that a gradient says them within a percent or so.

In half precision the weight is what reached the function, which is known exactly, or its part in a mean over the units
or over all rows, if just one of these lies within what rounding may make of the rows; else nothing is concluded.

Errors, with u = eps / 2 of the type, z the logits and p their softmax: each logit is rounded once, which changes p_c by
up to 2 u |z_c| p_c; each element of the gradient at the logits, and then at the hidden states, is rounded once more.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# rows of larger relative errors say nothing; fewer rows than these are not enough, in fewer features any may fit
_LARGEST, _FEWEST_ROWS, _FEWEST_FEATURES = 0.04, 4, 8
# misfits, and differences of weights, in units of their errors, which add up at worst and not by chance
_ERRORS = 2
# weights that a verdict takes for alike
_ALIKE = 0.005


def is_half(dtype: torch.dtype) -> bool:
    """Whether a type has so few digits that its numbers are to be read here."""
    return dtype in (torch.bfloat16, torch.float16)


def errors_of(logits: Tensor, lengths: Tensor, directions: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
    """Relative error that rounding makes of the gradient of each row at its hidden state.

    Args:
        logits: Rows by classes, in float32.
        lengths: Squared norm of each class's row in the head.
        directions: What the gradients of the rows should go by.
        targets: Their classes.
        dtype: In which the logits and the gradients were computed.
    """
    rounding = torch.finfo(dtype).eps / 2
    probabilities = logits.softmax(1)
    scores = probabilities * (1 + 2 * logits.abs())
    at = torch.arange(len(logits), device=logits.device)
    scores[at, targets] += 1 - probabilities[at, targets]
    squares = (scores.square() * lengths).sum(1) / directions.float().square().sum(1).clamp(min=1e-30)
    return rounding * (squares.double() + 1).sqrt()


def common(
    weights: Tensor, misfits: Tensor, errors: Tensor, features: int, candidates: Sequence[float]
) -> float | None:
    """The weight of all rows; None where they have no common one, or none of the candidates is it.

    Args:
        weights: Of some rows.
        misfits: Of their gradients, relative.
        errors: Of them, relative.
        features: Numbers in a row.
        candidates: What the weight may be; of those alike the first is taken.
    """
    clear = errors <= _LARGEST
    weights, misfits, errors = weights[clear], misfits[clear], errors[clear]
    if len(weights) < _FEWEST_ROWS or features < _FEWEST_FEATURES or not bool((misfits <= _ERRORS * errors).all()):
        return None
    trust = errors.square().reciprocal()
    mean = (weights * trust).sum() / trust.sum()
    if not bool((mean > 0) & ((weights - mean).abs() <= _ERRORS * errors * mean).all()):
        return None
    allowed = _ERRORS * float(trust.sum().rsqrt()) + float(errors.min()) / 2
    fitting = [one for one in candidates if one > 0 and abs(float(mean) / one - 1) <= allowed]
    if not fitting or max(fitting) > min(fitting) * (1 + _ALIKE):
        return None
    return fitting[0]
