"""A mechanism's stage as the published script: one file, standard library only, nothing to install."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any

from failuremap.catalogue.mechanism import STAGES, VARIANTS, Mechanism, Stage
from failuremap.errors import InvalidArgument

_HEAD = '''"""Failure Map reference implementation. Python standard library only."""
import json

N = {variant}
observations = []
'''
_CHECK = """def check(label, actual, expected):
    observations.append({"check": label, "actual": actual, "expected": expected, "passed": actual == expected})
"""
_FOOT = """print(json.dumps({"observations": observations, "passed": all(x["passed"] for x in observations)}, ensure_ascii=False))
raise SystemExit(0 if all(x["passed"] for x in observations) else 1)
"""  # noqa: E501


def render(mechanism: Mechanism, stage: Stage, variant: int = 1) -> str:
    """Writes the script of one stage for N = variant; its sha256 is that of the published record.

    The script prints its observations as one JSON line and exits with 0 where all checks pass, else with 1.

    Raises:
        InvalidArgument: The mechanism has no code, or there is no such stage or variant.
    """
    if mechanism.stages is None:
        raise InvalidArgument(f"slug={mechanism.slug!r} is an entry without code; there is no script to write.")
    if stage not in STAGES:
        raise InvalidArgument(f"stage={stage!r} is not known; expected one of: {', '.join(STAGES)}.")
    if variant not in VARIANTS:
        raise InvalidArgument(f"variant={variant!r} is not known; expected a number from 1 to {VARIANTS[-1]}.")
    signature, body = _parts(mechanism.stages.function(stage))
    solve = signature.replace(f"def {stage}(", "def solve(", 1) + body
    _, fixtures = _parts(mechanism.stages.checks)
    return _HEAD.format(variant=variant) + solve + _CHECK + textwrap.dedent(fixtures) + _FOOT


@cache
def source_of(function: Callable[..., Any]) -> str:
    """Returns the source of a function; looked up once, for it takes milliseconds."""
    return inspect.getsource(function)


def _parts(function: Callable[..., Any]) -> tuple[str, str]:
    """Splits a function's source into its first line and the rest."""
    signature, body = source_of(function).split("\n", 1)
    return signature + "\n", body.rstrip("\n") + "\n"
