"""Candidates that know nothing of the repair, and score where a judge is weak."""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Iterator

from failuremap.catalogue.mechanism import Mechanism
from failuremap.score.fixtures import public
from failuremap.score.forms import candidate_of
from failuremap.score.selftest.trial import Trial

_SAME = {
    "does nothing": "def solve(given):\n    return given\n",
    "returns nothing": "def solve(given):\n    pass\n",
    "no update": "def solve(given):\n    return []\n",
    "zero": "def solve(given):\n    return 0.0\n",
    "equal to everything": """
        class Equal:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __hash__(self): return 0
            def __len__(self): return 1
            def __iter__(self): return iter([self])
            def __sub__(self, other): return 0
            def __rsub__(self, other): return 0
            def __le__(self, other): return True
            def __lt__(self, other): return True
        def solve(given):
            return Equal()
        """,
    "a list equal to everything": """
        class Equal(list):
            def __eq__(self, other): return True
            def __ne__(self, other): return False
        def solve(given):
            return Equal([0])
        """,
    "a number equal to everything": """
        class Equal(float):
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __sub__(self, other): return 0.0
            def __rsub__(self, other): return 0.0
        def solve(given):
            return [Equal(0)]
        """,
}


def baselines(entry: Mechanism) -> Iterator[Trial]:
    """Yields the baselines of a family."""
    yield Trial("baseline", "empty file", "")
    yield Trial("baseline", "broken", candidate_of(entry, "broken"))
    yield Trial("baseline", "attempt", candidate_of(entry, "attempt"))
    for name, text in _SAME.items():
        yield Trial("baseline", name, textwrap.dedent(text))
    yield Trial("baseline", "memorised answers of the published checks", memorised(entry))
    yield Trial("baseline", "forged report", forged_report(entry))
    yield Trial("baseline", "forged report, then solve", f"{_printed(entry)}\n{candidate_of(entry, 'broken')}")


def memorised(entry: Mechanism) -> str:
    """Writes a candidate that knows the right answer to every published input, and is broken on others."""
    assert entry.stages is not None
    answers = {repr(fixture.given): entry.stages.fixed(copy.deepcopy(fixture.given)) for fixture in public(entry)}
    rows = "".join(f"    {given!r}: {right!r},\n" for given, right in answers.items())
    return f"""
from fractions import Fraction
inf, nan = float("inf"), float("nan")
ANSWERS = {{
{rows}}}

{candidate_of(entry, "broken").replace("def solve(", "def broken(", 1)}

def solve(given):
    known = repr(given)
    return ANSWERS[known] if known in ANSWERS else broken(given)
"""


def forged_report(entry: Mechanism) -> str:
    """Writes a candidate that prints the report of a repair that passes all checks, and exits as such a script does."""
    return f"{_printed(entry)}\nraise SystemExit(0)\n"


def _printed(entry: Mechanism) -> str:
    labels = [label for clause in entry.clauses for label in clause.checks]
    seen = [{"check": label, "actual": [1], "expected": [1], "passed": True} for label in labels]
    return f"import json\nprint(json.dumps({{'observations': {seen!r}, 'passed': True}}))"
