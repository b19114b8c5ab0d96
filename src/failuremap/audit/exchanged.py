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
from failuremap.audit.fit import tolerance
from failuremap.audit.observe import Fitted
from failuremap.audit.windows import Step
from failuremap.audit.words import listed
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
            exchanged = _exchanged(terms_KL, coefficients, update_L, limit)
            if exchanged.any():
                return _Held(parameter.name, other.name, row, step.keys[int(exchanged.argmax())][0], coefficients)
    return None


def _of(rows: Floats, step: Step, p: int) -> Floats:
    return rows[:, int(step.starts[p]) : int(step.starts[p + 1])]


def _exchanged(terms_KL: Floats, coefficients: Floats, update_L: Floats, limit: float) -> Mask:
    """The contributions of which an update holds the other parameter's gradient and not the parameter's own.

    None where the coefficients do not explain the update, or it holds both gradients of a contribution. Where a
    contribution has no gradient of one of the two, nothing was exchanged: stages that hold copies of one weight do so.
    """
    count = len(terms_KL) // 2
    sizes = np.sqrt(np.einsum("kl,kl->k", terms_KL, terms_KL))
    parts = np.abs(coefficients) * sizes
    apart = update_L - coefficients @ terms_KL
    largest = float(parts.max())
    if not sizes.all() or float(apart @ apart) ** 0.5 > limit * max(largest, float(update_L @ update_L) ** 0.5):
        return np.zeros(count, dtype=bool)
    there = parts > _GONE * largest
    own, other = there[:count], there[count:]
    found: Mask = other & ~own & ~(own & other).any()
    return found


def _solved(terms_KL: Floats, update_L: Floats) -> Floats:
    """The coefficients of an update; zeros where its terms are too much alike."""
    sizes = np.sqrt(np.einsum("kl,kl->k", terms_KL, terms_KL))
    unit_KL = terms_KL / np.where(sizes > 0, sizes, 1)[:, None]
    values, directions = np.linalg.eigh(unit_KL @ unit_KL.T)
    if values[0] < _ALIKE * values[-1]:
        return np.zeros(len(terms_KL))
    coefficients: Floats = (directions / values) @ directions.T @ (unit_KL @ update_L) / sizes
    return coefficients
