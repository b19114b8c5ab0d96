"""A mechanism as data: the rule that a job promises, the one that it follows, and what the evidence must show."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

Stage = Literal["broken", "attempt", "fixed"]
STAGES: tuple[Stage, ...] = ("broken", "attempt", "fixed")
VARIANTS = (1, 2, 3, 4, 5)

Vector = list[Any]
Signs = tuple[frozenset[Sign], ...]


def signs(*alternatives: set[Sign]) -> Signs:
    """Lists the alternatives of a mechanism: it needs all signs of one of them.

    Example:
        >>> len(signs({Sign.SHORT_WINDOW}, {Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION}))
        2
    """
    return tuple(map(frozenset, alternatives))


@dataclass(frozen=True)
class Stages:
    """The code of a mechanism's file: three implementations of one contract, and what is asked of them."""

    broken: Callable[[Any], Vector]
    attempt: Callable[[Any], Vector]
    fixed: Callable[[Any], Vector]
    checks: Callable[..., None]
    """`checks(N, solve, check)` calls `check(label, solve(input), expected)` for each fixture of variant N."""
    contributions: Callable[[Any], tuple[list[Vector], Layout]]
    """Input of a stage -> the contributions' gradients, and their layout."""
    sample: Callable[[random.Random], Any]
    """Source of randomness -> an input with something to add up."""

    def function(self, stage: Stage) -> Callable[[Any], Vector]:
        """Returns the implementation of one stage."""
        return {"broken": self.broken, "attempt": self.attempt, "fixed": self.fixed}[stage]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One way in which gradients are added up wrongly; its file in `mechanisms/` is the whole entry.

    Attributes:
        slug: Its name, that of the wrong pattern; the file's name with hyphens.
        title: The wrong pattern in words.
        abstract: One sentence: what goes wrong, for whom.
        contract: What should hold.
        why: The root cause.
        promised: Name of the rule that the contract promises.
        followed: Names of the rules that the job may follow instead; none where the update is no fixed combination.
        by_signs_alone: The signs name it under any rule.
        signs: Alternatives; the evidence shows all signs of one of them.
        never: Signs that exclude it.
        separated_by: What would tell it from those that leave like evidence.
        repair: What to do, in PyTorch.
        references: Public reports of it; none where no public report is known.
        attempt_follows: Name of the rule that the unsuccessful repair follows.
        case: Published case number, where there is one.
        stages: The code; none where the entry is data alone.
    """

    slug: str
    title: str
    abstract: str
    contract: str
    why: str
    promised: str = "weighted_mean"
    followed: tuple[str, ...] = ()
    by_signs_alone: bool = False
    signs: Signs = (frozenset(),)
    never: frozenset[Sign] = frozenset()
    separated_by: str
    repair: str
    references: tuple[str, ...]
    attempt_follows: str = ""
    case: str = ""
    stages: Stages | None = None

    def rule_of(self, stage: Stage) -> str:
        """Names the rule that a stage follows: the promised one where it is fixed."""
        return {"broken": self.followed[0], "attempt": self.attempt_follows, "fixed": self.promised}[stage]
