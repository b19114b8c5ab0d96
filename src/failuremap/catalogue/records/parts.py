"""The parts of a published case, each checked by itself: scripts, their runs, the contract and the rules."""

from __future__ import annotations

import ast
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from failuremap.catalogue.records.digest import canonical, sha256_text

_MAX_SOURCE = 65_536
_MAX_OUTPUT = 1_048_576
_MAX_INTEGER = 2**53 - 1  # the last one that every reader of JSON takes for itself and not for its neighbour

Text = Annotated[str, Field(min_length=1, max_length=_MAX_SOURCE)]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=100)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Output = Annotated[str, Field(max_length=_MAX_OUTPUT)]
Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


def _plain(value: Any) -> Any:
    """Refuses numbers that JSON has no sign for, or that not every reader reads alike."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON; write it as a string")
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        raise ValueError(f"{value} is beyond 2^53 - 1, where readers of JSON differ; write it as a string")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _plain(inner)
    return value


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):  # which Python takes for 0 or 1
        raise ValueError(f"{json.dumps(value)} is no number; expected 0 or 1")
    return value


def _day(text: str) -> str:
    date.fromisoformat(text)
    return text


Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_day)]
Value = Annotated[JsonValue, AfterValidator(_plain)]


class Part(BaseModel):
    """A part of a record: nothing converted, nothing unknown, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Clause(Part):
    """One sentence of a contract, and the labels of the checks that break where it is broken."""

    id: Slug
    kind: Literal["boundary", "algebraic", "numeric", "purity"]
    text: Text
    checks: tuple[Text, ...]


class Contract(Part):
    """What should hold of `solve`, for every input of the domain."""

    signature: Text
    """The parameters of `solve`."""
    text: Text
    domain: str
    clauses: tuple[Clause, ...]


class RuleUse(Part):
    """A rule of `failuremap.rules` by its name, its words and its formula."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    title: Text
    formula: Text


class Rules(Part):
    """How the contributions are weighed: as promised, and as the stages do instead."""

    promised: RuleUse | None
    """The rule that the contract states and the repair follows; null where a law states it."""
    law: Text | None
    """What holds of the result, where no rule states it all."""
    broken: RuleUse | None
    """The rule that `broken` follows; null where it follows none."""
    attempt: RuleUse | None
    """The rule that `attempt` follows; null where it follows none."""
    also_followed: tuple[RuleUse, ...]
    """Other rules by which a job can show the same mechanism."""


class Implementation(Part):
    """A Python text, and the SHA-256 of its UTF-8 bytes; it imports the standard library only."""

    sha256: Sha256
    source: Text

    @model_validator(mode="after")
    def _is_what_it_says(self) -> Implementation:
        actual = sha256_text(self.source)
        if self.sha256 != actual:
            raise ValueError(f"sha256={self.sha256!r} is not that of the source, which is {actual!r}")
        foreign = sorted(imported_modules(self.source) - sys.stdlib_module_names)
        if foreign:
            raise ValueError(f"source imports {foreign[0]!r}; a script uses the standard library only")
        return self


@lru_cache(maxsize=2048)  # both forms of a record hold the same scripts, and all variants the same harness
def imported_modules(source: str) -> frozenset[str]:
    """Returns the top-level names of the modules that a Python text imports; `.` stands for a relative import.

    Raises:
        ValueError: The text is no Python.
    """
    try:
        nodes = list(_statements(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"source is no Python: {str(error) or 'nested too deeply'}") from error
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    taken = {"." if node.level else str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    return frozenset(name.split(".")[0] or "." for name in plain | taken)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields the statements of a text, also the inner ones; past its expressions, which are most of it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                waiting += inner


class Implementations(Part):
    """The scripts of a case, by stage; the repaired one is in the member form only."""

    broken: Implementation
    attempt: Implementation
    fixed: Implementation | None = Field(default=None, exclude_if=lambda value: value is None)


class Observation(Part):
    """What one check gave."""

    check: Text
    actual: Value
    expected: Value
    passed: bool

    @model_validator(mode="after")
    def _passed_where_equal(self) -> Observation:
        if self.passed != (self.actual == self.expected):
            raise ValueError(
                f"passed={self.passed} of check={self.check!r}, but actual={self.actual} and expected={self.expected}"
            )
        return self


class Run(Part):
    """What one run of a script gave: its exit code, what its checks observed, what it printed."""

    exit_code: Annotated[Literal[0, 1], BeforeValidator(_no_truth)]
    passed: bool
    observations: Annotated[tuple[Observation, ...], Field(min_length=1)]
    stdout: Output
    stderr: Output

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the checks, in the order of the run."""
        return tuple(seen.check for seen in self.observations)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Run:
        repeated = next((label for label, times in Counter(self.labels).items() if times > 1), None)
        if repeated is not None:
            raise ValueError(f"observations: check={repeated!r} is there twice; a label names one check")
        all_passed = all(seen.passed for seen in self.observations)
        if self.passed != all_passed:
            raise ValueError(f"passed={self.passed}, but {'all' if all_passed else 'not all'} observations passed")
        if (self.exit_code == 0) != self.passed:
            raise ValueError(f"exit_code={self.exit_code} with passed={self.passed}; 0 says that all checks passed")
        self._check_stdout()
        return self

    def _check_stdout(self) -> None:
        report = {"observations": [seen.model_dump(mode="json") for seen in self.observations], "passed": self.passed}
        try:
            printed = canonical(json.loads(self.stdout))
        except ValueError as error:
            raise ValueError(f"stdout is no JSON report: {error}") from error
        if printed != canonical(report):
            raise ValueError("stdout is not the JSON of the observations")


class Verification(Part):
    """The recorded runs of a case, by stage; that of the repair is in the member form only."""

    broken: Run
    attempt: Run
    fixed: Run | None = Field(default=None, exclude_if=lambda value: value is None)


class Audit(Part):
    """What an audit of a live job can tell of a mechanism."""

    sees: str
    blind: str
    """Why it cannot be named in a live job; "" where it can."""
    separated_by: Text


class Reference(Part):
    """A public report of the mechanism, by its address."""

    kind: Literal["issue", "pull-request", "discussion", "commit", "page"]
    url: Annotated[str, Field(pattern=r"^https://\S+$", max_length=500)]


class Provenance(Part):
    """Who made a record, of what, and under which licence."""

    created_by: Text
    license: Literal["CC0-1.0"]
    dependencies: Text
    generator: Text


class Withdrawn(Part):
    """Why and when a case was taken back; its id is never used again."""

    day: Day
    reason: Text
