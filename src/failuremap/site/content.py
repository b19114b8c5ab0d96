"""What the pages are made of: the cases of one tier, by family, group, category and public report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.splits import split_of
from failuremap.catalogue.exchange.tiers import Tier, canary_line, holdings
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.shelf import case_id, mechanisms
from failuremap.errors import InvalidArgument
from failuremap.site.outcomes import StageRun, stage_run

HOME = "http://localhost:8000/"
"""Where `python -m http.server` shows a folder: the address of a site that was given none."""


@dataclass(frozen=True)
class Family:
    """One mechanism as its cases tell it.

    Attributes:
        slug: Its name.
        title: The wrong pattern in words.
        cases: Its variants, N = 1 first.
    """

    slug: str
    title: str
    cases: tuple[Case, ...]

    @property
    def first(self) -> Case:
        """The variant whose page speaks for all where nothing depends on N."""
        return self.cases[0]

    @property
    def number(self) -> str:
        """The permanent number, as `FM-001`."""
        return self.first.id.rpartition("-")[0]

    @cached_property
    def runs(self) -> dict[tuple[str, str], StageRun]:
        """What each stage gave, by the case's id and the stage."""
        return {(case.id, stage): stage_run(case, stage) for case in self.cases for stage in case.runs()}

    @cached_property
    def records(self) -> dict[str, str]:
        """The records as they are published, by the case's id."""
        return {case.id: case.to_json() for case in self.cases}


@dataclass(frozen=True)
class Content:
    """All that one build shows.

    Attributes:
        tier: Who may read it.
        cases: The cases of that tier, in its form.
        contracts: What it may say of the families that are held back.
        address: Where the site will stand; feeds and the sitemap name it.
        pyodide: A folder with pyodide, where scripts are to run in the page.
        served: Whether the member area stands at the root of the same site.
    """

    tier: Tier
    cases: tuple[Case, ...]
    contracts: tuple[dict[str, Any], ...] = ()
    address: str = HOME
    pyodide: Path | None = None
    served: bool = False

    @cached_property
    def families(self) -> dict[str, Family]:
        """The mechanisms by slug."""
        by_slug: dict[str, list[Case]] = {}
        for case in self.cases:
            by_slug.setdefault(case.family, []).append(case)
        return {
            slug: Family(slug, cases[0].title.rpartition(" · case ")[0], tuple(cases))
            for slug, cases in sorted(by_slug.items())
        }

    @cached_property
    def groups(self) -> dict[str, list[Family]]:
        """The families of each evaluation group."""
        return self._by(lambda family: [family.first.evaluation_group])

    @cached_property
    def categories(self) -> dict[str, list[Family]]:
        """The families of each category, by its name."""
        return self._by(lambda family: [family.first.category])

    @cached_property
    def reports(self) -> dict[str, list[Family]]:
        """The families that cite each public report, by its address."""
        return self._by(lambda family: [reference.url for reference in family.first.references])

    @property
    def canary(self) -> str:
        """The sentence that marks every file of the tier."""
        return canary_line(self.tier)

    def _by(self, names: Any) -> dict[str, list[Family]]:
        found: dict[str, list[Family]] = {}
        for family in self.families.values():
            for name in names(family):
                found.setdefault(name, []).append(family)
        return dict(sorted(found.items()))


def content_of(cases: Iterable[Case], tier: Tier, address: str = HOME, pyodide: Path | None = None) -> Content:
    """Sorts member forms, as `released_cases` makes them, into what a site of this tier shows.

    Raises:
        InvalidArgument: The tier is the sealed one, which has no pages.
    """
    if tier == "sealed":
        raise InvalidArgument("tier='sealed': what is held back is shown nowhere; choose open or member.")
    held = holdings(cases, tier)
    return Content(tier, held.cases, held.contracts, address, pyodide)


def catalogue_cases() -> list[Case]:
    """Returns the cases that a site needs: all of the open families, and one of each family that is held back."""
    names = [
        entry.slug if split_of(entry.group) == "open-access" else case_id(entry, 1)
        for entry in mechanisms().values()
        if entry.stages
    ]
    return released_cases(names)
