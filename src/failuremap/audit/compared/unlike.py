"""Parameters whose update the gradients of one process do not explain by the rule of most: by how much, and why.

Legend: K contributions of the reference, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.compared.delivered import Delivered, Difference, Origin
from failuremap.audit.faults import Asked
from failuremap.audit.fitting.fit import tolerance
from failuremap.audit.fitting.observe import Fitted, Observation

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# relative distance of coefficients from a multiple of the main ones
_SAME = 0.01
# numbers from which on a multiple is no chance
_ENOUGH = 3


@dataclass
class Unlike:
    """Parameters whose update the reference does not explain by the rule of most."""

    scaled: dict[str, float] = field(default_factory=dict)
    apart: dict[str, dict[int, float]] = field(default_factory=dict)
    """By name and rank the relative difference from one process."""
    small: set[str] = field(default_factory=set)
    """Those among them whose difference a smaller type would explain."""
    origins: dict[str, Origin] = field(default_factory=dict)
    """Where the difference of each comes from."""

    @property
    def large(self) -> dict[str, dict[int, float]]:
        """Those that differ, by more than a smaller type would explain."""
        return {name: by_rank for name, by_rank in self.apart.items() if name not in self.small}

    @property
    def large_origins(self) -> dict[Origin, list[str]]:
        """The parameters that are told, by where the difference comes from."""
        told = sorted({*self.scaled, *self.large})
        return {where: [name for name in told if self.origins[name] is where] for where in Origin}


@dataclass(frozen=True)
class _Main:
    """The rule that parameters should follow: the mean over all units where some do, else that of most."""

    coefficients: Floats
    follows: Mask
    factor: float | None
    """That of most parameters, in terms of it; None where it is no multiple."""


def unlike(fitted: Fitted, delivered: Delivered, own_names: Mapping[str, str], asked: Asked) -> Unlike:
    """Sorts the parameters that the main rule does not explain, where they follow no other rule that has a form.

    Args:
        fitted: The step, with the contributions of the reference.
        delivered: The step as it was captured.
        own_names: The names that the step's parameters have in the job.
        asked: What the job promises.
    """
    found, origins = Unlike(), dict[str, set[Origin]]()
    for observation in fitted.observations:
        main = _main(fitted, observation, asked)
        agreeing = {own_names[fitted.step.parameters[p].name] for p in np.flatnonzero(main.follows)}
        for p in map(int, np.flatnonzero(_apart(fitted, observation, main))):
            name = fitted.step.parameters[p].name
            seen = _difference(fitted, observation, main, p, own_names)
            origins.setdefault(name, set()).add(delivered.origin(seen, agreeing))
            times = _times_right(fitted, observation, main, p, seen)
            if times is None:
                found.apart.setdefault(name, {}).update(dict.fromkeys(observation.ranks, _distance(seen)))
            else:
                found.scaled[name] = times
    found.scaled = {name: times for name, times in found.scaled.items() if name not in found.apart}
    limits = {p.name: tolerance(_in_small_type(p.dtype), 1) for p in fitted.step.parameters}
    found.small = {name for name, by_rank in found.apart.items() if max(by_rank.values()) <= limits[name]}
    found.origins = {name: next(iter(seen)) if len(seen) == 1 else Origin.UNKNOWN for name, seen in origins.items()}
    return found


def _main(fitted: Fitted, observation: Observation, asked: Asked) -> _Main:
    fair = _fair(fitted, asked)
    if not observation.clusters:
        return _Main(fair, np.zeros(len(fitted.step.parameters), dtype=bool), None)
    usual = observation.clusters[0]
    chosen = next((c for c in observation.clusters if _is_fair(c.solution.coefficients, fair)), usual)
    main = chosen.solution.coefficients
    return _Main(main, chosen.parameters, _times(usual.solution.coefficients, main))


def _is_fair(coefficients: Floats, fair: Floats) -> bool:
    times = _times(coefficients, fair)
    return times is not None and abs(times - 1) <= _SAME


def _times(coefficients: Floats, main: Floats) -> float | None:
    """f where the coefficients are f times the main ones; None where they are not."""
    square = float(main @ main)
    factor = float(coefficients @ main) / square if square else 0.0
    apart = float(np.abs(coefficients - factor * main).max(initial=0.0))
    return factor if apart <= _SAME * float(np.abs(factor * main).max(initial=0.0)) else None


def _apart(fitted: Fitted, observation: Observation, main: _Main) -> Mask:
    """Parameters that no rule explains, and those that follow the main one times a factor."""
    scaled = np.array([parameter.name in observation.scaled for parameter in fitted.step.parameters], dtype=bool)
    found: Mask = observation.unexplained | observation.untouched | scaled
    for cluster in observation.clusters:
        other = not (cluster.parameters & main.follows).any()
        if other and _times(cluster.solution.coefficients, main.coefficients) is not None:
            found = found | cluster.parameters
    return found


def _times_right(fitted: Fitted, observation: Observation, main: _Main, p: int, seen: Difference) -> float | None:
    """The factor between an update and the right one; None where it is no multiple beyond doubt."""
    told = observation.scaled.get(fitted.step.parameters[p].name)
    if told is not None and main.factor is not None:
        return told * main.factor
    update, right = seen.update_L, seen.right_L
    square, size = float(right @ right), float(np.linalg.norm(update))
    if not square or not observation.clusters or fitted.products.row_counts[p] < _ENOUGH:
        return None
    times = float(update @ right) / square
    after = float(np.linalg.norm(update - times * right)) / size if size else 0.0
    return times if after <= tolerance(fitted.products.dtypes[p], len(fitted.classes)) else None


def _fair(fitted: Fitted, asked: Asked) -> Floats:
    """What each contribution should weigh."""
    units = np.array([float(backward.losses[0]["count"]) for backward in fitted.step.backwards])
    return np.full(len(units), 1.0 if asked.promise == "sum" else 1.0 / max(units.sum(), 1e-300))


def _in_small_type(dtype: str) -> str:
    """So many roundings of bfloat16 as there are of a type."""
    return f"bfloat16 x {dtype.partition(' x ')[2] or 1}"


def _difference(
    fitted: Fitted, observation: Observation, main: _Main, p: int, own_names: Mapping[str, str]
) -> Difference:
    """The update of a parameter on the first of some ranks that step alike, and the right one."""
    columns = slice(int(fitted.step.starts[p]), int(fitted.step.starts[p + 1]))
    name, rank = own_names[fitted.step.parameters[p].name], observation.ranks[0]
    update = fitted.step.updates_RL[fitted.step.ranks.index(rank), columns]
    right = main.coefficients @ fitted.step.contributions_KL[:, columns]
    return Difference(name, rank, [*own_names.values()].count(name) > 1, right, update)


def _distance(seen: Difference) -> float:
    """|update - right| / |right|."""
    size = float(np.linalg.norm(seen.right_L))
    return float(np.linalg.norm(seen.update_L - seen.right_L)) / size if size else float("inf")
