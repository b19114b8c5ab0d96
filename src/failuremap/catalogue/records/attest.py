"""Who ran a record's scripts, with what and when: a statement beside the record, never in it.

The form is that of an in-toto Statement (v1): the subject is the record by its digest, which is the same wherever and
whenever it was run; what differs from run to run stands in the predicate.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass

from failuremap.catalogue.records.digest import Document
from failuremap.catalogue.records.model import Case

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:failuremap:run:1"
BOX = "interpreter"
"""How the scripts are kept in: a fresh interpreter with limits and a guard, which is no sandbox."""


@dataclass(frozen=True)
class Environment:
    """Where and when scripts were run."""

    python: str
    machine: str
    started: str
    """In ISO 8601, UTC."""

    @classmethod
    def here(cls, started: str) -> Environment:
        """Describes this process's interpreter and machine."""
        python = f"{platform.python_implementation()} {platform.python_version()}"
        return cls(python, f"{platform.system()} {platform.machine()}", started)


def statement(case: Case, environment: Environment, durations_s: Mapping[str, float]) -> Document:
    """Returns the statement that these stages of a case were run and gave what is recorded.

    Args:
        case: The record, in either form.
        environment: Where and when.
        durations_s: Stage -> seconds that its run took.
    """
    return {
        "_type": STATEMENT,
        "subject": [{"name": case.id, "digest": {"sha256": case.sha256}}],
        "predicateType": PREDICATE,
        "predicate": {
            "result": "as recorded",
            "stages": {stage: {"duration_s": round(seconds, 3)} for stage, seconds in durations_s.items()},
            "python": environment.python,
            "machine": environment.machine,
            "started": environment.started,
            "box": BOX,
        },
    }
