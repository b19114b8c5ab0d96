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
class Clause:
    """One sentence of a contract that can be kept or broken by itself, and the checks that show it.

    Attributes:
        id: Short name, unique within the contract.
        kind: `boundary` (an edge of the domain), `algebraic` (what the result is), `numeric` (how exact it is), or
            `purity` (what a call leaves as it was).
        text: The clause in one sentence.
        checks: Labels of the checks that break where the clause is broken.
    """

    id: str
    kind: Literal["boundary", "algebraic", "numeric", "purity"]
    text: str
    checks: tuple[str, ...]


@dataclass(frozen=True)
class Stages:
    """The code of a mechanism's file: three implementations of one contract, and what is asked of them.

    A file has `contributions` where its contract is a rule, and `law` where it is none; or both.
    """

    broken: Callable[[Any], Vector]
    attempt: Callable[[Any], Vector]
    fixed: Callable[[Any], Vector]
    checks: Callable[..., None]
    """`checks(N, solve, check)` calls `check(label, solve(input), expected)` for each fixture of variant N."""
    sample: Callable[[random.Random], Any]
    """Source of randomness -> an input of the contract's domain, with something to add up.

    The score draws its held-back inputs from it too, and stretches each `randint` to the ends of the domain: a range
    from below 0 is one of gradients' values, one up to 9 of counts, and other small ones are sizes. What depends on
    another draw takes `randrange`, which is not stretched. The source has these two, `choice` and `random`.
    """
    contributions: Callable[[Any], tuple[list[Vector], Layout]] | None = None
    """Input of a stage -> the contributions' gradients, and their layout."""
    law: Callable[[Any, Callable[[Any], Any]], bool] | None = None
    """`law(given, solve)` is true where `solve` keeps the contract on this input."""
    edges: Callable[[random.Random], list[Any]] | None = None
    """Source of randomness -> inputs at those edges of the domain that no stretched sample reaches; for the score."""
    exact: Callable[[Any, Callable[[Any], Any]], Any] | None = None
    """`exact(given, root)` is the answer in exact numbers, where `fixed` computes a root in floats."""

    def function(self, stage: Stage) -> Callable[[Any], Vector]:
        """Returns the implementation of one stage."""
        return {"broken": self.broken, "attempt": self.attempt, "fixed": self.fixed}[stage]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One way in which gradients are added up wrongly; its file in `mechanisms/` is the whole entry.

    Attributes:
        number: Its permanent number, never used again; case N of it is `FM-number-N`.
        slug: Its name, that of the wrong pattern; the file's name with hyphens.
        title: The wrong pattern in words.
        group: The evaluation group: mechanisms so closely related that one tells of the other.
        abstract: One sentence: what goes wrong, for whom.
        root_cause: Why it goes wrong.
        failure: What the update is then, in numbers of a small case.
        failed_approach: The unsuccessful repair, and why it fails.
        relevance: What it costs in a training run, and where it was met.
        limitations: What the executable model leaves out.
        contract: What should hold.
        domain: The input: its shape, and what its values may be.
        clauses: The contract, clause by clause.
        promised: Name of the rule that the contract promises; "" where a law states it.
        followed: Names of the rules that the job may follow instead, that of `broken` first; none where there is none.
        attempt_follows: Name of the rule that the unsuccessful repair follows; "" where it follows none.
        law: What holds of the result, where no rule states it.
        by_signs_alone: The signs name it under any rule.
        signs: Alternatives; the evidence shows all signs of one of them.
        never: Signs that exclude it.
        separated_by: What would tell it from those that leave like evidence.
        symptoms: How people tell of it who don't know its cause yet; the site's search reads them.
        audit_sees: What an audit of a job that has it reports.
        audit_blind: Why an audit can't name it in a live job; "" where it does.
        repair: What to do, in PyTorch.
        references: Public reports of it; none where no public report is known.
        related: Slugs of mechanisms that are mistaken for it, cause it or mirror it.
        alias: Case number under which variant 1 was published elsewhere.
        published: Day of its first publication, as YYYY-MM-DD.
        modified: Day of its last change.
        stages: The code.
    """

    number: int
    slug: str
    title: str
    group: str
    abstract: str
    root_cause: str
    failure: str
    failed_approach: str
    relevance: str
    limitations: str
    contract: str
    domain: str
    clauses: tuple[Clause, ...]
    promised: str = "weighted_mean"
    followed: tuple[str, ...] = ()
    attempt_follows: str = ""
    law: str = ""
    by_signs_alone: bool = False
    signs: Signs = (frozenset(),)
    never: frozenset[Sign] = frozenset()
    separated_by: str
    symptoms: tuple[str, ...] = ()
    audit_sees: str
    audit_blind: str = ""
    repair: str
    references: tuple[str, ...]
    related: tuple[str, ...]
    alias: str = ""
    published: str
    modified: str
    stages: Stages | None = None

    def rule_of(self, stage: Stage) -> str:
        """Names the rule that a stage follows: the promised one where it is fixed; "" where no rule states it."""
        broken = self.followed[0] if self.followed else ""
        return {"broken": broken, "attempt": self.attempt_follows, "fixed": self.promised}[stage]
