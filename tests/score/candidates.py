"""Candidates that were written by hand: every function of a file in `wrong/` and `honest/`, named for its mechanism."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Candidate(NamedTuple):
    slug: str
    name: str
    source: str

    def __str__(self) -> str:
        return f"{self.slug}: {self.name}"


def candidates(folder: str) -> list[Candidate]:
    """Return the candidates of a folder: one for each public function, with what its file imports."""
    return [one for path in sorted((HERE / folder).glob("*.py")) for one in _of(path)]


def _of(path: Path) -> Iterator[Candidate]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            name, node.name = node.name, "solve"
            source = "\n\n".join(map(ast.unparse, [*imports, node]))
            yield Candidate(path.stem.replace("_", "-"), name, source)
