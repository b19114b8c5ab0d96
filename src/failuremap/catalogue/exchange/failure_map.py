"""Records in the form "failure-map", as FA-99241 was published: read strictly, and written back byte for byte.

The fields stand in the order in which that form writes them. The model holds the shape alone; whether what a record
says is true is the matter of `checking`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from failuremap.catalogue.records.parts import Output, Part, Sha256, Slug, Text, Value
from failuremap.catalogue.records.read import problem_of, read_json
from failuremap.errors import RecordError

CaseId = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2,8}(-[0-9]{1,8}){1,2}$")]
Stages = tuple[Literal["broken", "attempt", "fixed"], ...]


def _absent(value: Any) -> bool:
    return value is None


class Implementation(Part):
    """A script, and the SHA-256 that is claimed for it."""

    sha256: Sha256
    source: Text


class Implementations(Part):
    """The scripts by stage; the repaired one is there for members only."""

    attempt: Implementation
    broken: Implementation
    fixed: Implementation | None = Field(default=None, exclude_if=_absent)


class Observation(Part):
    """What one check is said to have given."""

    actual: Value
    check: Text
    expected: Value
    passed: bool


def _labelled_once(observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
    labels = [seen.check for seen in observations]
    twice = next((label for number, label in enumerate(labels) if label in labels[:number]), None)
    if twice is not None:
        raise ValueError(f"check={twice!r} is there twice; a label names one check")
    return observations


Observations = Annotated[tuple[Observation, ...], Field(min_length=1, max_length=1000), AfterValidator(_labelled_once)]


class Run(Part):
    """What one run of a script is said to have given."""

    elapsed_ms: Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)] | None
    """Null where it was not recorded."""
    exit_code: Annotated[int, Field(ge=0, le=255)]
    observations: Observations
    passed: bool
    stderr: Output
    stdout: Output


class Verification(Part):
    """The recorded runs by stage."""

    attempt: Run
    broken: Run
    fixed: Run | None = Field(default=None, exclude_if=_absent)


class Provenance(Part):
    """Who made the record, when and on what; null where that was not recorded."""

    created_by: Text
    dependencies: Text
    family: Slug
    generated_at: Text | None
    license: Text
    python: Text | None
    seed: int
    split: Slug


class MemberOnly(Part):
    """What the record says that it withholds."""

    stages: Stages
    fields: tuple[Text, ...]
    note: Text


class FailureMapRecord(Part):
    """One record in the form "failure-map"."""

    abstract: Text
    category: Text
    checks: Annotated[int, Field(ge=1)]
    contract: Text
    contract_signature: Text
    evaluation_group: Slug
    failed_approach: Text
    family: Slug
    harness: Text | None = Field(default=None, exclude_if=_absent)
    id: CaseId
    implementations: Implementations
    limitations: Text
    method: Text
    provenance: Provenance
    relevance: Text
    repair: Text | None = Field(default=None, exclude_if=_absent)
    root_cause: Text
    sha256: Sha256
    title: Text
    variant: Annotated[int, Field(ge=1, le=5)]
    variant_policy: Text
    verified: bool
    visibility: Literal["public", "member"]
    verification: Verification
    member_only: MemberOnly | None = Field(default=None, exclude_if=_absent)


def parse_record(text: str, name: str) -> FailureMapRecord:
    """Reads one record; what its claims are worth is not looked at.

    Args:
        text: The record as JSON.
        name: What to call it in an error.

    Raises:
        RecordError: It is no JSON, or has not this form: the message names the record and the field.
    """
    return record_of(read_json(text, name), name)


def record_of(document: Any, name: str) -> FailureMapRecord:
    """Makes a record of plain JSON values; otherwise as `parse_record`."""
    if not isinstance(document, dict):
        raise RecordError(f"record={name!r} is a JSON {type(document).__name__}; expected an object.")
    try:
        return FailureMapRecord.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise RecordError(f"record={name!r}: {problem_of(error)}.") from error
    except RecursionError as error:
        raise RecordError(f"record={name!r} is nested too deeply.") from error


def write_record(record: FailureMapRecord) -> str:
    """Writes a record in its form: one line, fields in order, nothing between them."""
    return json.dumps(record.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
