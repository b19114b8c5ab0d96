"""Repairs with one thing wrong: each place of a repair changed in each of the ways in which people and programs err.

A judge that accepts one of them which is not the same function has a hole. `wrapped` are changes of the whole: what the
repair is given, or returns, or leaves behind; `edited` are changes of one node of its syntax tree.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from failuremap.score.edits import edits_of


class Mutant(NamedTuple):
    """A changed repair."""

    name: str
    """What was changed, the same for the same repair; unique among its mutants."""
    source: str


def equivalents() -> dict[tuple[str, str], str]:
    """Returns the mutants that are no other function on their mechanism's domain: (slug, name) -> why."""
    text = (files("failuremap.score") / "recorded" / "equivalent_mutants.json").read_text(encoding="utf-8")
    return {(row["mechanism"], row["mutant"]): row["reason"] for row in json.loads(text)}


def mutants(source: str) -> list[Mutant]:
    """Lists the mutants of a candidate.

    Example:
        >>> [mutant.name for mutant in mutants("def solve(parts): return [sum(c) for c in zip(*parts)]")][:3]
        ['given: first part dropped', 'given: last part dropped', 'given: three parts alone']
    """
    seen, found = {ast.unparse(ast.parse(source))}, []
    names: Counter[str] = Counter()
    for name, text in [*wrapped(source), *edited(source)]:
        if text in seen:
            continue
        seen.add(text)
        names[name] += 1
        found.append(Mutant(name if names[name] == 1 else f"{name} #{names[name]}", text))
    return found


def edited(source: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each change of one node."""
    tree = ast.parse(source)
    for holder in ast.walk(tree):
        for field, value in ast.iter_fields(holder):
            for place, node in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(node, ast.AST):
                    continue
                for name, new in edits_of(node, holder):
                    _put(holder, field, place, new)
                    yield name, ast.unparse(ast.fix_missing_locations(tree))
                    _put(holder, field, place, node)


def _put(holder: ast.AST, field: str, place: int, node: ast.AST) -> None:
    """Puts a node where another one is."""
    held = getattr(holder, field)
    if isinstance(held, list):
        held[place] = node
    else:
        setattr(holder, field, node)


_HELP = '''

def _parts(value):
    """Finds the first list of containers."""
    if isinstance(value, list) and value and all(isinstance(part, (list, tuple, dict)) for part in value):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return next((found for part in inner if (found := _parts(part)) is not None), None)


def _numbers(value):
    """Finds the first list of numbers."""
    if isinstance(value, list) and value and all(isinstance(part, (int, float)) for part in value):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return next((found for part in inner if (found := _numbers(part)) is not None), None)


def _each(change, value):
    return [_each(change, part) for part in value] if isinstance(value, list) else change(value)


def solve(given):
    import copy, struct
    {body}
'''
_GIVEN = {
    "first part dropped": "del parts[0]",
    "last part dropped": "del parts[-1]",
    "three parts alone": "del parts[3:]",
    "seven parts alone": "del parts[7:]",
    "equal parts once": "parts[:] = {repr(part): part for part in parts}.values()",
    "first part twice": "parts.append(copy.deepcopy(parts[0]))",
}
_RETURNED = {
    "two coordinates alone": "result[:2]",
    "last coordinate dropped": "result[:-1]",
    "one number more": "[*result, 0]",
    "absolute": "_each(abs, result)",
    "whole": "_each(int, result)",
    "rounded": "_each(lambda x: round(x, 6), result)",
    "negative": "_each(lambda x: -x, result)",
    "twice as much": "_each(lambda x: x * 2, result)",
    "a millionth more": "_each(lambda x: x * 1.000001, result)",
    "1e-9 more": "_each(lambda x: x + 1e-9 * abs(x), result)",
    "single precision": "_each(lambda x: struct.unpack('d', bytes(3) + struct.pack('d', x)[3:])[0], result)",
    "backwards": "result[::-1]",
    "sorted": "sorted(result)",
    "none": "None",
    "empty": "[]",
    "as a tuple": "tuple(result)",
    "never empty": "result or [0]",
    "never negative": "_each(lambda x: max(x, 0), result)",
    "up to a million": "_each(lambda x: min(max(x, -1e6), 1e6), result)",
}
_LEFT = {
    "numbers reversed": "_numbers(given) and _numbers(given).reverse()",
    "first number overwritten": "if _numbers(given): _numbers(given)[0] += 1",
    "last part taken out": "if _parts(given): _parts(given).pop()",
    "part added": "if _parts(given): _parts(given).append(copy.deepcopy(_parts(given)[-1]))",
}


def wrapped(source: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each change of the whole."""
    inner = source.replace("def solve(", "def repaired(", 1)
    for name, change in _GIVEN.items():
        body = f"given = copy.deepcopy(given)\n    if parts := _parts(given): {change}\n    return repaired(given)"
        yield f"given: {name}", inner + _HELP.format(body=body)
    for name, expression in _RETURNED.items():
        yield f"returned: {name}", inner + _HELP.format(body=f"result = repaired(given)\n    return {expression}")
    for name, change in _LEFT.items():
        body = f"result = copy.deepcopy(repaired(given))\n    {change}\n    return result"
        yield f"left behind: {name}", inner + _HELP.format(body=body)
    state = "calls.append(1)\n    return repaired(given) if len(calls) % 2 else repaired(given)[:0]"
    yield "left behind: every second call empty", inner + "\n\ncalls = []\n" + _HELP.format(body=state)
