"""Repairs as different people would write them; a judge that refuses one of them is too strict."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from failuremap.catalogue.mechanism import Mechanism
from failuremap.score.forms import candidate_of
from failuremap.score.selftest.trial import Trial

_AROUND = {
    "adds from the other end": """
        import builtins
        def sum(values, start=0):
            return builtins.sum(list(values)[::-1], start)
        {repair}
        """,
    "adds with fsum": """
        import builtins, math
        def sum(values, start=0):
            values = list(values)
            return math.fsum(values) if any(type(value) is float for value in values) else builtins.sum(values, start)
        {repair}
        """,
    "adds in fractions": """
        import builtins, math
        from fractions import Fraction
        def sum(values, start=0):
            values = list(values)
            if any(type(value) is float and not math.isfinite(value) for value in values):
                return builtins.sum(values, start)
            exact = builtins.sum(map(Fraction, values), Fraction(start))
            return float(exact) if any(type(value) is float for value in values) else int(exact)
        {repair}
        """,
    "works on a copy": """
        import copy
        {repair}
        repaired = solve
        def solve(given):
            return repaired(copy.deepcopy(given))
        """,
    "is an object that can be called": """
        {repair}
        class Solver:
            def __init__(self, function): self.function = function
            def __call__(self, given): return self.function(given)
        solve = Solver(solve)
        """,
    "prints as it goes": """
        {repair}
        repaired = solve
        def solve(given):
            print("given", given)
            return repaired(given)
        """,
}


def honest(entry: Mechanism) -> Iterator[Trial]:
    """Yields the repair, and other ways to write it."""
    repair = candidate_of(entry)
    yield Trial("honest", "the repair", repair)
    for name, text in _AROUND.items():
        yield Trial("honest", name, textwrap.dedent(text).replace("{repair}", repair))
