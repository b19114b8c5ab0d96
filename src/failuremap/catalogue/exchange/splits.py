"""Which evaluation groups are held back: a keyed hash of the group alone, so that a new group moves no other."""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Literal

from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.render import render
from failuremap.errors import RecordError

Split = Literal["open-access", "held-back"]
SPLITS: tuple[Split, ...] = ("open-access", "held-back")

SEASON = "2026-11"
HELD_BACK_SHARE = Fraction(1, 4)

# The one place where a group is given another split than its hash says. Each line has its reason; a change is reviewed.
OVERRIDES: dict[str, Split] = {
    "counts-across-ranks": "open-access",  # published before, as FA-99241
    "sum-or-mean": "open-access",  # published before, as FA-99246
}


def split_of(group: str, season: str = SEASON, share: Fraction = HELD_BACK_SHARE) -> Split:
    """Returns the split of an evaluation group.

    It is held back where H / 2^256 < share, with H = sha256(season, a zero byte, group).

    Example:
        >>> split_of("counts-across-ranks")
        'open-access'
    """
    if group in OVERRIDES:
        return OVERRIDES[group]
    return _by_hash(group, season, share)


@cache  # asked of each pair of mechanisms for each case
def _by_hash(group: str, season: str, share: Fraction) -> Split:
    return "held-back" if _hash_of(season, group) < share * 2**256 else "open-access"


def _hash_of(season: str, group: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{season}\0{group}".encode()).digest(), "big")


@dataclass(frozen=True)
class Standing:
    """Where one entry stands.

    Attributes:
        family: The mechanism's slug.
        group: Its evaluation group.
        split: The split of the group.
        repair: The repaired script; "" where it is not known.
    """

    family: str
    group: str
    split: str
    repair: str = ""


def standing_of(entry: Mechanism) -> Standing:
    """Places a mechanism of the catalogue."""
    repair = render(entry, "fixed") if entry.stages else ""
    return Standing(entry.slug, entry.group, split_of(entry.group), repair)


def check_splits(standings: Iterable[Standing]) -> None:
    """Refuses entries of which one split tells about another.

    Raises:
        RecordError: A family is in two groups, a group in two splits, or two splits share a repair. The message names
            all that were found.
    """
    problems = list(_problems(list(standings)))
    if problems:
        raise RecordError("\n".join(problems))


def _problems(standings: list[Standing]) -> Iterator[str]:
    groups_of, splits_of, repairs = defaultdict(set), defaultdict(set), defaultdict(list)
    for one in standings:
        groups_of[one.family].add(one.group)
        splits_of[one.group].add(one.split)
        if one.repair:
            repairs[repair_shape(one.repair)].append(one)
    for family, groups in sorted(groups_of.items()):
        if len(groups) > 1:
            yield f"family={family!r} is in {len(groups)} groups, {_quoted(groups)}; a family is in one."
    for group, splits in sorted(splits_of.items()):
        if len(splits) > 1:
            yield f"group={group!r} is in {len(splits)} splits, {_quoted(splits)}; a group is in one."
    for sharing in repairs.values():
        if len({one.split for one in sharing}) > 1:
            yield _shared_repair(sharing)


def _shared_repair(standings: list[Standing]) -> str:
    named = {f"{one.family!r} (group={one.group!r}, split={one.split!r})" for one in standings}
    return (
        f"families {', '.join(sorted(named))} have one repair in two splits; "
        "put them in one group, or their groups in one split."
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def repair_shape(script: str) -> str:
    """Returns the digest of what a script's `solve` does, whatever its variables are called.

    Names that the function binds are numbered in their order; constants, operators and what it calls are kept.

    Example:
        >>> repair_shape("def solve(a): return 2*a") == repair_shape("def solve(rows): return 2*rows")
        True
    """
    functions = [node for node in ast.parse(script).body if isinstance(node, ast.FunctionDef)]
    solve = next((node for node in functions if node.name == "solve"), None)
    if solve is None:
        raise RecordError("the repair has no function solve().")
    bound = {node.arg for node in ast.walk(solve) if isinstance(node, ast.arg)}
    bound |= {node.id for node in ast.walk(solve) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in ast.walk(solve) if isinstance(node, ast.FunctionDef)}
    return hashlib.sha256(ast.dump(_Renamed(bound).visit(solve)).encode()).hexdigest()


class _Renamed(ast.NodeTransformer):
    """Numbers the bound names in the order in which they are met, and drops docstrings."""

    def __init__(self, bound: set[str]) -> None:
        self._bound = bound
        self._numbers: dict[str, str] = {}

    def _number(self, name: str) -> str:
        return self._numbers.setdefault(name, f"_{len(self._numbers)}") if name in self._bound else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Renames a use of a name."""
        return ast.Name(self._number(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Renames a parameter."""
        return ast.arg(self._number(node.arg))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Renames an inner function, and leaves out the docstring."""
        node.name = self._number(node.name)
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        return self.generic_visit(node)
