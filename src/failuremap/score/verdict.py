"""What the judge says of one candidate: a frozen record, with its published JSON Schema."""

from __future__ import annotations

import json
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Outcome = Literal["accepted", "wrong", "crashed", "timeout", "memory", "output", "malformed", "judge-error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
SCHEMA_VERSION = 1
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Counts(_Part):
    """How many fixtures the candidate was right on, of how many there are."""

    public_passed: int = 0
    public_total: int = 0
    held_back_passed: int = 0
    held_back_total: int = 0


class Resources(_Part):
    """What the candidate used, as the box measured it."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_bytes: int = 0


class Counterexample(_Part):
    """A public input on which the candidate is wrong, made as small as it stays wrong; in Python's notation.

    Where there was no answer, it is the first such input as it is, and `actual` says why.
    """

    fixture: str = Field(description="Label of the check that it was made from.")
    given: str
    expected: str
    actual: str


class Numerics(_Part):
    """How exact the results are: it is not scored."""

    worst_ulps: float | None = Field(
        description="Largest distance from the exact result rounded once, in units of its last place."
    )
    order_independent: bool | None = Field(
        description="All results kept every bit where contributions came in another order; null where none was asked."
    )


class Verdict(_Part):
    """What the judge says of one candidate for one case.

    Of held-back fixtures it tells no more than whether each clause held.

    Example:
        >>> Verdict(outcome="accepted", sentence="It keeps the contract.", case="FM-001-1").accepted
        True
    """

    schema_version: int = SCHEMA_VERSION
    outcome: Outcome
    sentence: str = Field(description="Says in one sentence what came of it, and why.")
    case: str = Field(description="Id of the case, FM-number-N, or FM-number for all its variants.")
    mechanism: str = Field(default="", description="Slug of the mechanism.")
    candidate_sha256: str = Field(
        default="", description="sha256 of the candidate's bytes; empty where none were read."
    )
    box_level: str = Field(default="none", description="Level of the box that the candidate ran in.")
    clauses: dict[str, bool | None] = Field(
        default_factory=dict,
        description="Clause -> whether it held on all of its fixtures; null where one was not reached and none failed."
        " `any-input` is the whole contract on inputs from the whole domain; `purity` that calls leave no trace.",
    )
    counts: Counts = Counts()
    usage: Resources = Resources()
    counterexample: Counterexample | None = None
    numerics: Numerics | None = None
    generator_version: int = Field(default=0, description="Version of what draws the held-back fixtures.")
    key_commitment: str = Field(default="", description="sha256 of the key that the held-back fixtures are drawn from.")
    key: str | None = Field(default=None, description="The key itself, in hexadecimal, where it is revealed.")

    @property
    def accepted(self) -> bool:
        """True where the candidate is a repair."""
        return self.outcome == "accepted"


def to_json(verdict: Verdict) -> str:
    """Writes a verdict as JSON, keys in the order of the schema."""
    return verdict.model_dump_json(indent=2) + "\n"


def schema_text() -> str:
    """Returns the text of the published schema, `docs/score-verdict.schema.json`."""
    schema: dict[str, Any] = {"$schema": DIALECT, **Verdict.model_json_schema(mode="serialization")}
    schema["properties"]["schema_version"] = {"const": SCHEMA_VERSION, "title": "Schema Version", "type": "integer"}
    return json.dumps(schema, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
