"""Updates that hold the gradients of another parameter in place of their own: buffers that ranks lay out unlike.

A collective knows offsets and no names. Looked for where nothing else explains an update, and among parameters of as
many elements: what lies across the border of two parameters is explained by neither.

Legend: K contributions, L numbers of one parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Fault, Judged
from failuremap.audit.fitting.fit import tolerance
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.sentences.words import listed
from failuremap.audit.steps.windows import Step
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# parameters that are tried first: where none of them holds another's gradients, the rest are not tried
_TRIED = 6
# part of the largest term below which a gradient is not in an update
_GONE = 0.01
# smallest over largest eigenvalue below which terms are not told apart
_ALIKE = 1e-6


@dataclass(frozen=True)
class _Held:
    """The update of one parameter on one rank holds gradients of another."""

    name: str
    other: str
    row: int
    """Of the updates."""
    rank: int
    """The first whose gradients were exchanged."""
    coefficients: Floats
    """Of the parameter's own gradients, then of the other's."""


def judge_exchanged(judged: Judged, fitted: Fitted, left: Mask, signs: set[Sign]) -> Mask:
    """Judges parameters whose update holds, of some contributions, the gradients of another parameter.

    Args:
        judged: Gets one fault for all of them.
        fitted: The step.
        left: Parameters whose update nothing has explained.
        signs: What else is known of the job.

    Returns:
        Those that this explains.
    """
    found: list[_Held] = []
    explained = np.zeros_like(left)
    for number, p in enumerate(_most_numbers_first(fitted.step, left)):
        if number == _TRIED and not found:
            break
        held = [_held_by(fitted.step, p, row, found) for row in _rows(fitted, p)]
        if held and None not in held:
            found += [one for one in held if one is not None]
            explained[p] = True
    if found:
        names = [parameter.name for parameter in fitted.step.parameters]
        touched = sorted(names[p] for p in np.flatnonzero(explained))
        first = min(found, key=lambda one: names.index(one.name))
        sentence = (
            f"{fitted.step.extent.of(len(touched))} step on gradients of other parameters ({listed(touched)}): "
            f"{first.name} on that of {first.other} from rank {first.rank}."
        )
        told = signs | {Sign.OTHER_PARAMETER_ADDED, Sign.SOME_PARAMETERS}
        judged.faults.append(Fault("exchanged", told, sentence, parameters=touched))
    return explained


def _most_numbers_first(step: Step, left: Mask) -> list[int]:
    return sorted(np.flatnonzero(left).tolist(), key=lambda p: (-step.parameters[p].rows, p))


def _rows(fitted: Fitted, p: int) -> Iterator[int]:
    """The ranks, as rows of the updates, whose update of a parameter nothing has explained; one of those alike."""
    for observation in fitted.observations:
        if observation.unexplained[p]:
            yield fitted.step.ranks.index(observation.ranks[0])


def _held_by(step: Step, p: int, row: int, known: Sequence[_Held]) -> _Held | None:
    """The other parameter of which an update holds gradients; None where there is no one such parameter.

    What has too few numbers to be solved for may be combined as a larger parameter is on the same rank.
    """
    own_KL, update_L = _of(step.contributions_KL, step, p), _of(step.updates_RL, step, p)[row]
    parameter, count = step.parameters[p], len(own_KL)
    limit = tolerance(parameter.dtype, 2 * count)
    for q, other in enumerate(step.parameters):
        if q == p or (other.rows, other.size) != (parameter.rows, parameter.size):
            continue
        terms_KL = np.concatenate([own_KL, _of(step.contributions_KL, step, q)])
        solved = [_solved(terms_KL, update_L)] if len(update_L) >= 4 * count + 2 else []
        for coefficients in solved or [one.coefficients for one in known if one.row == row]:
            exchanged = _exchanged(terms_KL, coefficients, update_L, limit, copies=_may_be_copies(step, p, q))
            if exchanged.any():
                return _Held(parameter.name, other.name, row, step.keys[int(exchanged.argmax())][0], coefficients)
    return None


def _of(rows: Floats, step: Step, p: int) -> Floats:
    return rows[:, int(step.starts[p]) : int(step.starts[p + 1])]


def _may_be_copies(step: Step, p: int, q: int) -> bool:
    """Whether two parameters hold the same weights, or are not known to hold others: stages may tie them together."""
    held = []
    for parameter in (p, q):
        rows = _of(step.weights_RL, step, parameter)
        known = rows[~np.isnan(rows).all(axis=1)]
        if not len(known):
            return True
        held.append(known[0])
    both = ~np.isnan(held[0]) & ~np.isnan(held[1])
    return bool(np.allclose(held[0][both], held[1][both], rtol=1e-3, atol=0))


def _exchanged(terms_KL: Floats, coefficients: Floats, update_L: Floats, limit: float, *, copies: bool) -> Mask:
    """The contributions of which an update holds the other parameter's gradient and not the parameter's own.

    None where the coefficients do not explain the update, or it holds both gradients of a contribution. Where the two
    may be copies of one weight, a contribution without a gradient of the parameter has exchanged nothing: these are
    meant to be added up.
    """
    count = len(terms_KL) // 2
    sizes = _sizes(terms_KL)
    parts = np.abs(coefficients) * sizes
    apart = update_L - coefficients @ terms_KL
    largest = float(parts.max())
    if float(apart @ apart) ** 0.5 > limit * max(largest, float(update_L @ update_L) ** 0.5) or largest == 0:
        return np.zeros(count, dtype=bool)
    there = parts > _GONE * largest
    own, other = there[:count], there[count:]
    found: Mask = other & ~own & ~(own & other).any()
    return found & (sizes[:count] > 0) if copies else found


def _sizes(terms_KL: Floats) -> Floats:
    sizes: Floats = np.sqrt(np.einsum("kl,kl->k", terms_KL, terms_KL))
    return sizes


def _solved(terms_KL: Floats, update_L: Floats) -> Floats:
    """The coefficients of an update; zeros where its terms are too much alike."""
    sizes = _sizes(terms_KL)
    there = sizes > 0
    coefficients = np.zeros(len(terms_KL))
    if not there.any():
        return coefficients
    unit_KL = terms_KL[there] / sizes[there, None]
    values, directions = np.linalg.eigh(unit_KL @ unit_KL.T)
    if values[0] >= _ALIKE * values[-1]:
        coefficients[there] = (directions / values) @ directions.T @ (unit_KL @ update_L) / sizes[there]
    return coefficients
