"""A published case: one variant of one mechanism, its scripts and what they gave, in one checked record.

A record has two forms with one digest. The open form lacks the repair and its harness; `member_only.commitments` stands
for each. The member form holds them, and the salts that open the commitments.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from failuremap.catalogue.records.agreement import disagreements
from failuremap.catalogue.records.digest import WITHHELD, open_form
from failuremap.catalogue.records.parts import (
    Audit,
    Contract,
    Day,
    Implementation,
    Implementations,
    Part,
    Provenance,
    Reference,
    Rules,
    Run,
    Sha256,
    Slug,
    Text,
    Uuid,
    Verification,
    Withdrawn,
)

SCHEMA_VERSION = "1.0.0"


def _absent(value: Any) -> bool:
    return value is None


class MemberOnly(Part):
    """What the open form withholds, and the commitments that hold the publisher to it."""

    stages: tuple[Literal["fixed"], ...]
    fields: tuple[str, ...]
    note: Text
    commitments: dict[str, Sha256]
    salts: dict[str, Sha256] | None = Field(default=None, exclude_if=_absent)
    canary: Uuid | None = Field(default=None, exclude_if=_absent)

    @model_validator(mode="after")
    def _commits_to_its_fields(self) -> MemberOnly:
        if self.fields != WITHHELD:
            raise ValueError(f"fields={list(self.fields)}; this schema withholds {list(WITHHELD)}")
        if set(self.commitments) != set(WITHHELD):
            raise ValueError(f"commitments={sorted(self.commitments)}; expected one for each of {list(WITHHELD)}")
        return self


class Case(Part):
    """One case of the catalogue. Its fields stand in the order in which they are written."""

    schema_version: Literal["1.0.0"]
    id: Annotated[str, Field(pattern=r"^FM-[0-9]{3}-[1-5]$")]
    aliases: tuple[Annotated[str, Field(pattern=r"^[A-Z]{2,8}-[0-9]+$")], ...]
    title: Text
    abstract: Text
    category: Text
    family: Slug
    evaluation_group: Slug
    variant: Annotated[int, Field(ge=1, le=5)]
    variant_policy: Text
    visibility: Literal["open", "member", "sealed"]
    split: Slug
    root_cause: Text
    failure: Text
    failed_approach: Text
    relevance: Text
    limitations: Text
    method: Text
    contract: Contract
    rules: Rules
    checks: Annotated[int, Field(ge=1)]
    implementations: Implementations
    verification: Verification
    harness: Implementation | None = Field(default=None, exclude_if=_absent)
    """The source of what the score asks of a candidate: the checks, random inputs, the rule's terms, the law."""
    repair: Text | None = Field(default=None, exclude_if=_absent)
    """What to do, in PyTorch."""
    audit: Audit
    related: tuple[Slug, ...]
    references: tuple[Reference, ...]
    member_only: MemberOnly
    provenance: Provenance
    published: Day
    modified: Day
    withdrawn: Withdrawn | None
    canary: Uuid
    sha256: Sha256

    @property
    def is_member_form(self) -> bool:
        """True where the record holds the repair."""
        return self.repair is not None

    def runs(self) -> dict[str, Run]:
        """Returns the recorded runs that this form holds, by stage."""
        return {stage: run for stage, run in self.verification if run is not None}

    def document(self) -> dict[str, Any]:
        """Returns the record as plain JSON values, in the order of its fields."""
        return self.model_dump(mode="json")

    def to_open(self) -> Case:
        """Returns the form that strangers read: without repair, harness and salts; its digest is the same."""
        return Case.model_validate_json(json.dumps(open_form(self.document())))

    def to_json(self) -> str:
        """Writes the record as JSON, indented, with its fields in order."""
        return json.dumps(self.document(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Case:
        for problem in disagreements(self):
            raise ValueError(problem)
        return self
