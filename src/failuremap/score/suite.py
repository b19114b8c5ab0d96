"""The families that are scored together, and the candidates for them in a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.splits import split_of
from failuremap.catalogue.exchange.tiers import contract_id
from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.shelf import case_id, case_of, mechanisms
from failuremap.errors import InvalidArgument

Suite = Literal["open", "member", "sealed"]
SUITES: tuple[Suite, ...] = get_args(Suite)
_LEFT_ALONE = re.compile(r"\..*|__pycache__")
_SAMPLE = re.compile(r"sample-([1-9][0-9]*)\.py")
_LAYOUT = "DIR/NAME/sample-1.py or DIR/SYSTEM/NAME/sample-1.py, NAME a family or a case"


@cache
def families(suite: Suite) -> dict[str, Mechanism]:
    """Returns the families of a suite by slug: those held back in `sealed`, the others in `open` and `member`.

    Example:
        >>> "partials-averaged" in families("open"), families("open") == families("member")
        (True, True)
    """
    split = "held-back" if suite == "sealed" else "open-access"
    with_code = {slug: entry for slug, entry in mechanisms().items() if entry.stages}
    return {slug: entry for slug, entry in with_code.items() if split_of(entry.group) == split}


@dataclass(frozen=True, order=True)
class Sample:
    """One file to judge.

    Attributes:
        system: Who or what wrote it.
        family: Slug of the mechanism.
        case: Id of the case, or FM-number for all variants of the family.
        number: Which of the system's samples it is, from 1.
        path: The file.
    """

    system: str
    family: str
    case: str
    number: int
    path: Path

    @property
    def place(self) -> tuple[str, str, int]:
        """What a result is filed under."""
        return self.system, self.case, self.number


@dataclass(frozen=True)
class Candidates:
    """What a folder holds for a suite.

    Attributes:
        suite: Which.
        systems: Whose candidates they are.
        samples: The files, in the order of system, family, case and number.
        elsewhere: Names in the folder that belong to families of other suites.
    """

    suite: Suite
    systems: tuple[str, ...]
    samples: tuple[Sample, ...]
    elsewhere: tuple[str, ...]


def find_candidates(folder: Path, suite: Suite) -> Candidates:
    """Finds the candidates in a folder: `NAME/sample-K.py`, below a folder of each system where there are several.

    NAME is a family's slug or number, a case's id or alias, or in the sealed suite the id of a contract. A sample of a
    family is judged on all its variants. Names that begin with a dot are left alone.

    Raises:
        InvalidArgument: The folder is laid out otherwise; the message names the first place, and what belongs there.
    """
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "doesn't exist"
        raise InvalidArgument(f"--candidates {str(folder)!r} {what}; expected {_LAYOUT}.")
    lookup = _lookup_of(suite)
    named = _folders_in(folder, f"expected {_LAYOUT}")
    apart = bool(named) and not any(lookup(path.name) for path in named)
    systems = named if apart else [folder.resolve()]
    found = [(path.name, sample) for path in systems for sample in _samples_of(path, lookup)]
    if not found:
        raise InvalidArgument(f"--candidates {str(folder)!r} holds no candidate; expected {_LAYOUT}.")
    ours = sorted(sample for _, sample in found if sample.family in families(suite))
    elsewhere = {sample.path.parent.name for _, sample in found if sample.family not in families(suite)}
    return Candidates(suite, tuple(path.name for path in systems), tuple(ours), tuple(sorted(elsewhere)))


Lookup = Callable[[str], tuple[Mechanism, int | None] | None]


def _lookup_of(suite: Suite) -> Lookup:
    """Returns what finds the family and the variant that a name means, or None."""
    contracts = _contracts() if suite == "sealed" else {}

    def lookup(name: str) -> tuple[Mechanism, int | None] | None:
        if name in contracts:
            return contracts[name], None
        try:
            return case_of(name)
        except InvalidArgument:
            return None

    return lookup


@cache
def _contracts() -> dict[str, Mechanism]:
    """Finds the held-back families by the name under which their contract is published."""
    known = families("sealed")
    cases = released_cases([case_id(entry, 1) for entry in known.values()])
    return {contract_id(case): known[case.family] for case in cases}


def _samples_of(system: Path, lookup: Lookup) -> Iterator[Sample]:
    seen: dict[str, tuple[set[int | None], Path]] = {}
    for path in _folders_in(system, f"expected {_LAYOUT}"):
        known = lookup(path.name)
        if known is None or known[0].stages is None:
            raise InvalidArgument(
                f"{str(path)!r}: name={path.name!r} is no family and no case to be scored; expected {_LAYOUT}. "
                "`failuremap list` shows them."
            )
        entry, variant = known
        variants, other = seen.setdefault(entry.slug, (set(), path))
        if variant in variants or (variants and (variant is None or None in variants)):
            raise InvalidArgument(
                f"{str(path)!r} and {str(other)!r} are both for family={entry.slug!r}; give one folder for the family, "
                "or one for each of its cases."
            )
        variants.add(variant)
        case = case_id(entry, variant or 1)
        yield from _numbered(path, system.name, entry.slug, case if variant else case.rpartition("-")[0])


def _numbered(folder: Path, system: str, family: str, case: str) -> Iterator[Sample]:
    for path in sorted(folder.iterdir()):
        if _LEFT_ALONE.fullmatch(path.name):
            continue
        match = _SAMPLE.fullmatch(path.name)
        if match is None:
            raise InvalidArgument(f"{str(path)!r} is no sample; expected the name sample-K.py, K counted from 1.")
        yield Sample(system, family, case, int(match[1]), path)


def _folders_in(folder: Path, expected: str) -> list[Path]:
    paths = [path for path in sorted(folder.iterdir()) if not _LEFT_ALONE.fullmatch(path.name)]
    for path in paths:
        if not path.is_dir():
            raise InvalidArgument(f"{str(path)!r} is no folder; {expected}.")
    return paths
