"""Candidates that go for the judge instead of the repair. `wrong` is the family's broken form."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from failuremap.catalogue.mechanism import Mechanism
from failuremap.score.forms import candidate_of
from failuremap.score.selftest.trial import Trial

_ATTACKS = {
    "exits with success as it is loaded": "import os\nos._exit(0)",
    "exits with success as it is called": "def solve(given):\n    raise SystemExit(0)",
    "raises what no judge expects": "def solve(given):\n    raise BaseException('passed')",
    "says that it passed": "def solve(given):\n    return {'outcome': 'accepted', 'passed': True}",
    "answers in a word": "def solve(given):\n    return 'accepted'",
    "answers true": "def solve(given):\n    return True",
    "answers nan": "def solve(given):\n    return [float('nan')] * 3",
    "answers infinity": "def solve(given):\n    return [float('inf')]",
    "answers without an end": """
        def solve(given):
            while True:
                yield 0.0
        """,
    "answers what contains itself": """
        def solve(given):
            answer = []
            answer.append(answer)
            return answer
        """,
    "answers as a tuple": "def solve(given):\n    return tuple(wrong(given))",
    "answers with its own kind of number": """
        import fractions
        class Close(fractions.Fraction):
            def __sub__(self, other): return 0
            def __rsub__(self, other): return 0
            def __abs__(self): return 0
        def solve(given):
            return [Close(value) for value in wrong(given)]
        """,
    "replaces comparisons": """
        import builtins, operator
        builtins.all = builtins.any = lambda values: True
        builtins.abs = lambda value: 0
        operator.eq = lambda one, other: True
        builtins.type = builtins.isinstance = lambda *args: True
        solve = wrong
        """,
    "replaces what writes answers": """
        import sys
        for name, module in list(sys.modules.items()):
            for part in ("encode", "write_line", "_answer", "_check", "judge", "is_right", "same"):
                if hasattr(module, part):
                    try: setattr(module, part, lambda *args, **options: b"accepted")
                    except Exception: pass
        solve = wrong
        """,
    "looks for the answer in the callers": """
        import sys
        def solve(given):
            frame = sys._getframe()
            while frame:
                for name, value in frame.f_locals.items():
                    if name in ("expected", "answer", "right", "wanted", "solution"):
                        return value
                frame = frame.f_back
            return wrong(given)
        """,
    "looks for the answer in all objects": """
        def solve(given):
            import gc
            for found in gc.get_objects():
                if isinstance(found, dict) and "expected" in found:
                    return found["expected"]
            return wrong(given)
        """,
    "imports the repair": """
        def solve(given):
            from failuremap.catalogue import mechanism
            return mechanism(SLUG).stages.fixed(given)
        """,
    "reads the repair": """
        import importlib.util, os
        def solve(given):
            spec = importlib.util.find_spec("failuremap")
            path = os.path.join(os.path.dirname(spec.origin), "catalogue", "mechanisms", SLUG.replace("-", "_") + ".py")
            scope = {}
            exec(open(path).read(), scope)
            return scope["fixed"](given)
        """,
    "changes its input to the answer's size": """
        def solve(given):
            answer = wrong(given)
            if isinstance(given, list): given.clear()
            elif isinstance(given, dict): given.clear()
            return answer
        """,
    "answers right once, then with its list filled": """
        kept = []
        def solve(given):
            kept.append(0.0)
            return kept
        """,
    "starts a child and leaves": """
        import os
        def solve(given):
            if os.fork():
                os._exit(0)
            return wrong(given)
        """,
    "runs out of depth": "def solve(given):\n    return solve([given])",
}


def attacks(entry: Mechanism) -> Iterator[Trial]:
    """Yields the attacks, each with the family's broken form to fall back on."""
    wrong = candidate_of(entry, "broken").replace("def solve(", "def wrong(", 1)
    for name, text in _ATTACKS.items():
        yield Trial("attack", name, f"SLUG = {entry.slug!r}\n{wrong}\n{textwrap.dedent(text)}\n")
