"""A family's cases as the parts of a page: its stages with what they gave, their difference, the audit, the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from failuremap.audit.model import Verdict
from failuremap.catalogue.records.digest import value_at
from failuremap.catalogue.records.model import Case
from failuremap.site.audits import audit_command, recorded_audit
from failuremap.site.content import Family
from failuremap.site.outcomes import StageRun
from failuremap.site.picture import picture
from failuremap.site.remedies import Remedy, remedy_for
from failuremap.site.source import difference, highlighted, of_all_variants, of_variant

_TITLES = {"broken": "The failure", "attempt": "The unsuccessful fix", "fixed": "The repair"}


@dataclass(frozen=True)
class Shown:
    """One stage as a page shows it: its script once, and its runs."""

    stage: str
    number: int
    title: str
    source: Markup
    runs: list[StageRun]


@dataclass(frozen=True)
class Record:
    """What a page says of a family: of one of its cases, or of all of them in their places.

    Attributes:
        family: The family.
        cases: The cases in question.
        is_whole: Whether it is the family's own page, with all variants in their places.
    """

    family: Family
    cases: Sequence[Case]
    is_whole: bool = False

    @property
    def first(self) -> Case:
        """The case whose page it is; that of N = 1 where it is the family's."""
        return self.cases[0]

    @cached_property
    def stages(self) -> list[Shown]:
        """The stages that the tier may read, in order."""
        return [self._shown(stage, number) for number, (stage, _) in enumerate(self.first.runs().items(), 1)]

    def _shown(self, stage: str, number: int) -> Shown:
        html = highlighted(getattr(self.family.first.implementations, stage).source)
        source = of_all_variants(html) if self.is_whole else of_variant(html, self.first.variant)
        return Shown(stage, number, _TITLES[stage], source, [self.family.runs[case.id, stage] for case in self.cases])

    def difference_to(self, stage: str) -> Iterator[tuple[str, str]]:
        """Yields the lines in which a stage differs from the one before it."""
        order = list(self.first.runs())
        before = order[order.index(stage) - 1]
        sources = [getattr(self.first.implementations, one).source for one in (before, stage)]
        return difference(*sources)

    @property
    def harness(self) -> Markup:
        """The source of what a candidate is held to, where the tier may read it."""
        return highlighted(self.first.harness.source) if self.first.harness else Markup()

    @cached_property
    def audit(self) -> Verdict | None:
        """What an audit said of the mechanism's training script."""
        return recorded_audit(self.family.slug)

    @cached_property
    def audit_picture(self) -> Markup:
        """That as a picture."""
        return picture(self.audit, "audit") if self.audit else Markup()

    @property
    def audit_commands(self) -> list[str]:
        """The commands that audit the training script here."""
        command = audit_command(self.family.slug)
        return [f"failuremap show {self.family.slug} --live > {command[-1]}", " ".join(command)]

    @property
    def remedy(self) -> Remedy | None:
        """What applies the promised rule."""
        return remedy_for(self.first.rules.promised)

    @property
    def withheld(self) -> list[tuple[str, str]]:
        """The paths that the tier may not read, with the commitment to each."""
        document = self.first.document()
        commitments = self.first.member_only.commitments
        return [(path, commitments[path]) for path in self.first.member_only.fields if value_at(document, path) is None]
