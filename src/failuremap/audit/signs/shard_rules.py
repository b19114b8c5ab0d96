"""Shards that follow rules of their own where the whole follows none: whose, by which factors, from where on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Fault, Judged
from failuremap.audit.fitting.observe import Fitted
from failuremap.audit.fitting.shard_fit import shard_rules
from failuremap.audit.sentences import shard_words
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# relative difference of factors up to which shards count as treated alike
_SAME = 1e-4


def judge_shards(judged: Judged, fitted: Fitted, left: Mask, signs: set[Sign]) -> bool:
    """Judges parameters whose whole update no rule explains, shard by shard; False if that says nothing.

    Args:
        judged: Gets a fault where each rank has a rule, and a reason where some shards have none.
        fitted: The step.
        left: The parameters.
        signs: What else is known of the job.
    """
    found = shard_rules(fitted.step, fitted.classes, left)
    if len(found) < 2:
        return False
    names = [parameter.name for parameter in fitted.step.parameters]
    others = [shard for ruled in found for shard in ruled.others]
    if others:
        if all(ruled.others for ruled in found):
            return False
        judged.unexplained.append(shard_words.shards_unexplained(others, names))
        return True
    vectors, errors = [ruled.coefficients_K for ruled in found], [ruled.errors_K for ruled in found]
    if not _apart(vectors, errors):
        return False
    touched = [names[p] for p in np.flatnonzero(left)]
    sizes = [float(np.linalg.norm(vector, np.inf)) or 1.0 for vector in vectors]
    if _apart(*([row / size for row, size in zip(rows, sizes, strict=True)] for rows in (vectors, errors))):
        sentence = shard_words.shards_apart({ruled.rank: ruled.coefficients_K for ruled in found})
        judged.faults.append(Fault("shards", set(signs), sentence, parameters=touched))
    else:
        sentence = shard_words.shards_scaled(
            {ruled.rank: size / max(sizes) for ruled, size in zip(found, sizes, strict=True)}
        )
        judged.faults.append(Fault("shards", signs | {Sign.SHARDS_SCALED_APART}, sentence, parameters=touched))
    return True


def judge_partials(judged: Judged, fitted: Fitted, signs: set[Sign]) -> None:
    """Judges parameters of which the ranks of a model have a part of the gradient each, and step on that."""
    found = sorted({name for observation in fitted.observations for name in observation.partial})
    if found:
        told = (signs - {Sign.SINGLE_RANK}) | {Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS, Sign.PARTIAL_ONLY}
        sentence = shard_words.partials_alone(found, fitted.step.extent)
        judged.faults.append(Fault("local parts", told, sentence, parameters=found))


def _apart(vectors: Sequence[Floats], errors: Sequence[Floats]) -> bool:
    """Whether the coefficients of some rank are not those of the first, beyond doubt."""
    for vector, error in zip(vectors[1:], errors[1:], strict=True):
        limit = np.maximum(_SAME * float(np.abs(vectors[0]).max(initial=0.0)), 6 * (error + errors[0]))
        if (np.abs(vector - vectors[0]) > limit).any():
            return True
    return False
