"""What backward delivered at a step that was compared: whether it is right, and the way it was added up is not.

Where the update of a parameter is not that of one process, either the ranks' gradients are parts of the right one that
were put together wrongly, or they were wrong before anything was put together. The captured gradients tell which.

Legend: K contributions as they were captured, J those of the reference, L numbers of one parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.faults import Fault, Judged
from failuremap.audit.fitting.fit import Cluster
from failuremap.audit.fitting.observe import Fitted, Observation, nonfinite, observe
from failuremap.audit.signs.crossings import crossings, functions_of, unseen_crossings
from failuremap.audit.steps.windows import Step
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
    OWN_DIVISOR = "own divisor"
    """What a rank alone holds a part of has the right gradient, and the divisor of fewer ranks than all others."""
    BACKWARD = "backward"
    """What backward delivered was put together as that of all others is, and is no part of the right gradient."""


SIGNS: dict[Origin, frozenset[Sign]] = {
    Origin.UNKNOWN: frozenset(),
    Origin.PARTS_ALONE: frozenset({Sign.PARTIAL_ONLY, Sign.OWN_RANK_ONLY}),
    Origin.PARTS_AVERAGED: frozenset(),
    Origin.OWN_DIVISOR: frozenset({Sign.DIVIDED_BY_OWN_GROUP}),
    Origin.BACKWARD: frozenset({Sign.UNLIKE_ONE_PROCESS}),
}
"""What each says of a job, beside what is known of it anyhow."""


@dataclass(frozen=True)
class Difference:
    """The update of a parameter on one rank, beside the right one."""

    name: str
    rank: int
    is_part: bool
    """Whether each rank holds a part of the parameter."""
    right_L: Floats
    update_L: Floats


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

    def origin(self, difference: Difference, agreeing: set[str]) -> Origin:
        """Where the update of a parameter on one rank went wrong.

        Args:
            difference: What it is, and what it should be.
            agreeing: Parameters whose update is right.
        """
        names = [parameter.name for parameter in self.step.parameters]
        observation = self._observation(difference.rank)
        usual = None if observation is None else self._usual(observation, agreeing)
        if observation is None or usual is None or difference.name not in names:
            return Origin.UNKNOWN
        p, cluster = names.index(difference.name), observation.clusters[usual]
        parts_KL = self.step.contributions_KL[:, int(self.step.starts[p]) : int(self.step.starts[p + 1])]
        if difference.is_part:
            return self._of_part(difference, self._alone(self._in_full(cluster, _largest), difference.rank) @ parts_KL)
        for combined in (_largest, sum):  # parts on the ranks have the weight of one rank, copies that of all together
            full_K = self._in_full(cluster, combined)
            if self._are_parts(parts_KL) and _near(full_K @ parts_KL, difference.right_L):
                alone_L = self._alone(full_K, difference.rank) @ parts_KL
                return Origin.PARTS_ALONE if _near(alone_L, difference.update_L) else self._averaged(difference)
        follows = bool(cluster.parameters[p]) and not observation.hooked[p]
        return Origin.BACKWARD if follows else Origin.UNKNOWN

    def _of_part(self, difference: Difference, alone_L: Floats) -> Origin:
        """Of a parameter of which each rank holds a part of its own, and has its gradient alone."""
        if _near(alone_L, difference.update_L):
            return Origin.BACKWARD
        count = len(self.step.ranks)
        divisors = {count / size for size in range(1, count) if count % size == 0}
        over = any(_near(difference.update_L, times * difference.right_L) for times in divisors)
        return Origin.OWN_DIVISOR if over and _near(alone_L, difference.right_L) else Origin.UNKNOWN

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

    def _in_full(self, cluster: Cluster, combined: Callable[[Floats], float]) -> Floats:
        """The coefficients that add up the parts of each model's ranks, made of those that its ranks have."""
        found = np.zeros(len(self.step.keys))
        for mine in map(self._of, self.members):
            found[mine] = combined(cluster.solution.coefficients[mine])
        return found

    def _alone(self, coefficients_K: Floats, rank: int) -> Floats:
        mine = np.array([key[0] == rank for key in self.step.keys])
        found: Floats = np.where(mine, coefficients_K, 0.0)
        return found

    def _averaged(self, difference: Difference) -> Origin:
        groups = [members for members in self.members if any(rank == difference.rank for rank, _ in members)]
        sizes = {len({rank for rank, _ in members}) for members in groups}
        averaged = len(sizes) == 1 and _near(difference.update_L, difference.right_L / sizes.pop())
        return Origin.PARTS_AVERAGED if averaged else Origin.UNKNOWN


def delivered(step: Step, previous: Step | None, members: list[frozenset[Member]], captured: Judged) -> Delivered:
    """What backward delivered at a step, with what the audit alone says of it."""
    fitted = observe(step, previous) if step.keys and not any(nonfinite(step)) else None
    left = captured.faults or captured.doubts or captured.unexplained or captured.unmeasured
    settled = not left and captured.losses_seen == captured.losses_total
    return Delivered(step, fitted, members, settled, captured.faults, captured.factor or 1.0)


def _largest(coefficients: Floats) -> float:
    """The one farthest from 0; 0 where there is none."""
    return float(max(coefficients, key=abs, default=0.0))


def _near(found_L: Floats, wanted_L: Floats) -> bool:
    size = float(np.linalg.norm(wanted_L))
    return size > 0 and float(np.linalg.norm(found_L - wanted_L)) <= _SAME * size
