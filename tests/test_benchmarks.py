"""The benchmarks run when somebody asks for them; that what they import is where it was is held here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from test_architecture import SOURCE, imports_of

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def is_there(name: str) -> bool:
    """Whether a dotted name of ours is a module, or something that its module defines or passes on."""
    path = SOURCE.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    home = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
    if not home.is_file():
        return False
    return path.name in bound_in(ast.parse(home.read_text(encoding="utf-8")).body)


def bound_in(body: list[ast.stmt]) -> set[str]:
    """Return the names that statements at the top of a module bind, those for type checkers included."""
    names = set()
    for node in body:
        if isinstance(node, ast.If):
            names |= bound_in(node.body)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {ast.unparse(target) for target in targets}
        else:
            names.add(getattr(node, "name", ""))
    return names


def test_what_benchmarks_import_of_the_package_is_there():
    imported = {
        (str(path.relative_to(BENCHMARKS)), name)
        for path in BENCHMARKS.rglob("*.py")
        for _, name in imports_of("benchmark.py", path.read_text(encoding="utf-8"))
        if name.split(".")[0] == "failuremap"
    }

    assert imported
    assert {(path, name) for path, name in imported if not is_there(name)} == set()


@pytest.mark.parametrize("name", ["failuremap.audit.capture.graph", "failuremap.nothing", "failuremap.attic.exact_sum"])
def test_what_is_not_there_is_seen(name):
    assert not is_there(name)
