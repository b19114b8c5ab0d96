"""What a record states, whatever its form: the one thing that is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class Seen(Protocol):
    """What one check is said to have given."""

    @property
    def check(self) -> str:
        """Returns the check's label."""

    @property
    def actual(self) -> Any:
        """Returns what `solve` gave."""

    @property
    def expected(self) -> Any:
        """Returns what the contract wants."""

    @property
    def passed(self) -> bool:
        """Returns whether they are said to be equal."""


@dataclass(frozen=True)
class StageStatement:
    """What a record says of one stage; None where its form doesn't say it."""

    stage: str
    source: str
    sha256: str
    exit_code: int
    observations: tuple[Seen, ...]
    passed: bool | None = None
    stdout: str | None = None
    stderr: str | None = None


@dataclass(frozen=True)
class Statement:
    """What a record says.

    Attributes:
        record: Its id.
        title: Its title, with the variant's number.
        variant: N.
        checks: The number of checks in each stage.
        stages: The stages that it shows.
        withheld: Names of the stages that it says are withheld.
        is_public: It says that it may be read by anyone; None where its form says that by the split alone.
        split: Its split.
        family: Its family; "" where its form doesn't say it.
        group: Its evaluation group; "" where its form doesn't say it.
        signature: The parameters of `solve`; "" where its form doesn't say it.
        leaked: Paths that it says are withheld, and holds.
        others: What it says a second time: claim -> (the second value, the first).
        uncheckable: Claim -> why nobody can check it from the record alone.
    """

    record: str
    title: str
    variant: int
    checks: int
    stages: tuple[StageStatement, ...]
    withheld: tuple[str, ...]
    is_public: bool | None
    split: str
    family: str = ""
    group: str = ""
    signature: str = ""
    leaked: tuple[str, ...] = ()
    others: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    uncheckable: Mapping[str, str] = field(default_factory=dict)
