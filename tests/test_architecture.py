"""Imports flow one way, frameworks stay in their rooms, and no file grows past its budget."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
LEVELS = {
    "errors": 0,
    "rules": 1,
    "aggregate": 2,
    "catalogue": 2,
    "audit": 3,
    "score": 3,
    "site": 4,
    "cli": 5,
    "__main__": 6,
    "__init__": 6,
}
FRAMEWORKS = {"torch", "jax", "jaxlib", "mpi4py"}
FRAMEWORK_ROOMS = (
    "failuremap/audit/capture/",
    "failuremap/aggregate/torch",
    "failuremap/aggregate/jax",
    "failuremap/aggregate/mpi",
    "failuremap/catalogue/live/",  # training scripts that are shown and started, never imported
)
WEB_STACK = {"argon2", "h11", "python_multipart", "starlette", "uvicorn", "webauthn"}
WEB_ROOM = "failuremap/site/app/"
LINE_BUDGET = 400


def room_of(module: str) -> str:
    """Return the room of a dotted name of ours: `failuremap.audit.fitting.fit` is in `audit`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports_of(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything that a file imports, lazily or not."""
    package = path.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            yield from ((node.lineno, arg.value) for arg in node.args if isinstance(arg, ast.Constant))


def complaint_about(path: str, name: str) -> str | None:
    """Say what is wrong with a file that imports this name, if anything is."""
    top = name.split(".", maxsplit=1)[0]
    here = room_of(path.removesuffix(".py").replace("/", "."))
    if here not in LEVELS:
        return f"the room {here!r} has no level in test_architecture.LEVELS"
    if top in FRAMEWORKS and not path.startswith(FRAMEWORK_ROOMS):
        return f"{top} is imported only in audit/capture/ and its aggregate/ backend file"
    if top in WEB_STACK and not path.startswith(WEB_ROOM):
        return f"{top} is imported only in site/app/"
    if here in ("errors", "rules") and top != "failuremap" and top not in sys.stdlib_module_names:
        return f"{here} uses the standard library only, not {top}"
    if top != "failuremap" or name in ("failuremap", "failuremap.__version__"):
        return None
    there = room_of(name)
    if there not in LEVELS:
        return f"{name} is in no room; import it from its home"
    if there != here and LEVELS[there] >= LEVELS[here]:
        return f"{here} never imports {there}"
    return None


def violations(files: dict[str, str]) -> list[str]:
    """Return one line for each import that goes the wrong way, in files given as path -> source."""
    return [
        f"{path}:{line}: {complaint}"
        for path, source in sorted(files.items())
        for line, name in imports_of(path, source)
        if (complaint := complaint_about(path, name))
    ]


def our_files() -> dict[str, str]:
    """Return every Python file of the package as path from src/ -> source."""
    return {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def test_imports_flow_one_way():
    assert violations(our_files()) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("failuremap/rules/rule.py", "import numpy as np", "rules uses the standard library only, not numpy"),
        ("failuremap/errors.py", "from failuremap.rules import Rule", "errors never imports rules"),
        ("failuremap/rules/rule.py", "from failuremap.aggregate.plain import f", "rules never imports aggregate"),
        (
            "failuremap/aggregate/plain.py",
            "def f():\n    from ..catalogue import find",
            "aggregate never imports catalogue",
        ),
        (
            "failuremap/audit/fitting/fit.py",
            "import torch.nn",
            "torch is imported only in audit/capture/ and its aggregate/ backend file",
        ),
        (
            "failuremap/audit/fitting/fit.py",
            "import importlib\nimportlib.import_module('jax')",
            "jax is imported only in",
        ),
        ("failuremap/score/grade.py", "from failuremap import audit", "score never imports audit"),
        ("failuremap/audit/launch.py", "from failuremap.cli import main", "audit never imports cli"),
        ("failuremap/audit/launch.py", "from failuremap import aggregate_all", "is in no room"),
        ("failuremap/site/build.py", "import starlette.routing", "starlette is imported only in site/app/"),
        ("failuremap/cli/serve.py", "def f():\n    import uvicorn", "uvicorn is imported only in site/app/"),
        ("failuremap/attic/a.py", "import os", "the room 'attic' has no level"),
    ],
)
def test_a_planted_wrong_import_is_caught(path, source, complaint):
    found = violations({path: source})

    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("failuremap/audit/capture/held/hooks.py", "import torch"),
        ("failuremap/audit/fitting/fit.py", "from failuremap.rules.rule import Rule\nfrom .model import Verdict"),
        ("failuremap/rules/rule.py", "from fractions import Fraction\nfrom ..errors import InvalidArgument"),
        ("failuremap/site/app/visit.py", "from starlette.requests import Request"),
        ("failuremap/cli.py", "from failuremap import __version__\nfrom failuremap.audit.launch import audit"),
    ],
)
def test_a_right_import_is_not_accused(path, source):
    assert violations({path: source}) == []


def test_no_source_file_is_longer_than_its_budget():
    lengths = {path: source.count("\n") for path, source in our_files().items()}

    assert {path: length for path, length in lengths.items() if length > LINE_BUDGET} == {}


def test_a_bare_import_loads_no_framework():
    code = "import sys, failuremap; print(sorted({'torch', 'jax', 'mpi4py', 'rich', 'click'} & sys.modules.keys()))"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"


def test_marking_a_loss_loads_no_framework():
    code = "import sys, failuremap; failuremap.count, failuremap.unit_losses; print('torch' in sys.modules)"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "False"
