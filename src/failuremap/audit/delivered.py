"""What backward delivered at a step that was compared: whether it is right, and the way it was added up is not.

Where the update of a parameter is not that of one process, either the ranks' gradients are parts of the right one that
were put together wrongly, or they were wrong before anything was put together. The captured gradients tell which.

Legend: K contributions as they were captured, J those of the reference, L numbers of one parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.crossings import crossings, functions_of, unseen_crossings
from failuremap.audit.faults import Fault, Judged
from failuremap.audit.observe import Fitted, Observation, nonfinite, observe
from failuremap.audit.windows import Step
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Member = tuple[int, int]

# relative difference up to which parts add up to the right gradient: far below what a part that is missing makes
_SAME = 0.01


class Origin(StrEnum):
    """Where the update of a parameter comes to differ from that of one process."""

    UNKNOWN = "unknown"
    PARTS_ALONE = "parts alone"
    """Each rank of a model has a part of the right gradient, and steps on that."""
    PARTS_AVERAGED = "parts averaged"
    """The parts are averaged, and should be added up."""
    BACKWARD = "backward"
    """What backward delivered was put together as that of all others is, and is no part of the right gradient."""


SIGNS: dict[Origin, frozenset[Sign]] = {
    Origin.UNKNOWN: frozenset(),
    Origin.PARTS_ALONE: frozenset({Sign.PARTIAL_ONLY, Sign.OWN_RANK_ONLY}),
    Origin.PARTS_AVERAGED: frozenset(),
    Origin.BACKWARD: frozenset({Sign.UNLIKE_ONE_PROCESS}),
}
"""What each says of a job, beside what is known of it anyhow."""


@dataclass(frozen=True)
class Delivered:
    """The captured gradients of one step, beside those of the reference.

    Attributes:
        step: The step as it was captured.
        fitted: How its updates are made of what was captured; None where something is not finite.
        members: By contribution of the reference the backward passes that it stands for.
        settled: Whether the audit alone finds the step right, with nothing left open.
        faults: What it finds wrong.
        factor: What the script alone multiplies the update by, as far as the audit sees it.
    """

    step: Step
    fitted: Fitted | None
    members: list[frozenset[Member]]
    settled: bool
    faults: list[Fault]
    factor: float

    @property
    def surroundings(self) -> set[Sign]:
        """Whether activations cross the ranks, and whether autograd sees it."""
        return crossings(self.step) | unseen_crossings(self.step)

    @property
    def group_sizes(self) -> set[int]:
        """Numbers of ranks by which a whole update may be off: all, or those that have one contribution together."""
        together = {len({rank for rank, _ in members}) for members in self.members}
        return {len(self.step.ranks), *together} - {1}

    @property
    def functions(self) -> dict[str, str]:
        """The script's own autograd functions in which activations cross the ranks, each with a line of it."""
        return functions_of(self.step)

    def origin(self, name: str, rank: int, right_L: Floats, update_L: Floats, agreeing: set[str]) -> Origin:
        """Where the update of a parameter on one rank went wrong.

        Args:
            name: The parameter.
            rank: The rank.
            right_L: What its update should be.
            update_L: What it is.
            agreeing: Parameters whose update is right.
        """
        p = next((p for p, parameter in enumerate(self.step.parameters) if parameter.name == name), None)
        observation = self._observation(rank)
        if p is None or observation is None:
            return Origin.UNKNOWN
        usual = self._usual(observation, agreeing)
        if usual is None:
            return Origin.UNKNOWN
        parts_KL = self.step.contributions_KL[:, int(self.step.starts[p]) : int(self.step.starts[p + 1])]
        cluster = observation.clusters[usual]
        added_L = self._in_full(cluster.solution.coefficients) @ parts_KL
        if self._are_parts(parts_KL) and _near(added_L, right_L):
            alone_L = self._own(cluster.solution.coefficients, rank) @ parts_KL
            return Origin.PARTS_ALONE if _near(alone_L, update_L) else self._averaged(rank, right_L, update_L)
        follows = bool(cluster.parameters[p]) and not observation.hooked[p]
        return Origin.BACKWARD if follows else Origin.UNKNOWN

    def _observation(self, rank: int) -> Observation | None:
        found = self.fitted.observations if self.fitted is not None else []
        return next((observation for observation in found if rank in observation.ranks), None)

    def _usual(self, observation: Observation, agreeing: set[str]) -> int | None:
        """Which of the rules of an update is that of the parameters that are right; the first where none is."""
        right = np.array([parameter.name in agreeing for parameter in self.step.parameters], dtype=bool)
        shared = [int((cluster.parameters & right).sum()) for cluster in observation.clusters]
        if right.any() and not any(shared):
            return None
        return int(np.argmax(shared)) if shared else None

    def _are_parts(self, parts_KL: Floats) -> bool:
        """Whether the ranks of a model have gradients of their own: equal ones are no parts."""
        groups = [self._of(members) for members in self.members if len({rank for rank, _ in members}) > 1]
        return any(not _near(parts_KL[k], parts_KL[mine[0]]) for mine in groups for k in mine[1:])

    def _of(self, members: frozenset[Member]) -> list[int]:
        """The captured contributions that one of the reference stands for."""
        keys = enumerate(zip(self.step.keys, self.step.backwards, strict=True))
        return [k for k, ((rank, _), backward) in keys if (rank, backward.id) in members]

    def _in_full(self, coefficients_K: Floats) -> Floats:
        """The coefficients that add up the parts of each model's ranks, each with the largest that one of them has."""
        found = np.zeros(len(coefficients_K))
        for mine in map(self._of, self.members):
            found[mine] = max(coefficients_K[mine], key=abs, default=0.0)
        return found

    def _own(self, coefficients_K: Floats, rank: int) -> Floats:
        mine = np.array([key[0] == rank for key in self.step.keys])
        found: Floats = np.where(mine, self._in_full(coefficients_K), 0.0)
        return found

    def _averaged(self, rank: int, right_L: Floats, update_L: Floats) -> Origin:
        sizes = {len({other for other, _ in members}) for members in self.members if any(r == rank for r, _ in members)}
        averaged = len(sizes) == 1 and _near(update_L, right_L / sizes.pop())
        return Origin.PARTS_AVERAGED if averaged else Origin.UNKNOWN


def delivered(step: Step, previous: Step | None, members: list[frozenset[Member]], captured: Judged) -> Delivered:
    """What backward delivered at a step, with what the audit alone says of it."""
    fitted = observe(step, previous) if step.keys and not any(nonfinite(step)) else None
    left = captured.faults or captured.doubts or captured.unexplained or captured.unmeasured
    settled = not left and captured.losses_seen == captured.losses_total
    return Delivered(step, fitted, members, settled, captured.faults, captured.factor or 1.0)


def _near(found_L: Floats, wanted_L: Floats) -> bool:
    size = float(np.linalg.norm(wanted_L))
    return size > 0 and float(np.linalg.norm(found_L - wanted_L)) <= _SAME * size
