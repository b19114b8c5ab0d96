"""May a stranger's script be run? It may compute with pure modules of the standard library, and touch nothing else.

This keeps an honest script from doing harm and names what a dishonest one asks for. It is no boundary: behind it stands
the interpreter of `catalogue.run`, isolated and limited.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator

PURE_MODULES = (
    "bisect", "cmath", "collections", "copy", "decimal", "fractions", "functools", "heapq", "itertools", "json", "math",
    "numbers", "operator", "random", "re", "statistics",
)  # fmt: skip
"""What a script may import: modules that compute."""

# Names that open files, run text as code, or reach an attribute by a string.
_REFUSED_NAMES = frozenset(
    "__import__ attrgetter breakpoint compile delattr eval exec exit getattr globals help input locals memoryview "
    "methodcaller open quit setattr singledispatch singledispatchmethod update_wrapper vars wraps".split()
)
_ALLOWED_NAMES = frozenset({"__name__"})
# `json.codecs` is a module that opens files.
_OTHER_MODULES = sys.stdlib_module_names - set(PURE_MODULES)
# Attributes that lead from an object to its frame, its code or its globals.
_REFUSED_PREFIXES = ("_", "ag_", "co_", "cr_", "f_", "func_", "gi_", "tb_")


def refusal(source: str) -> str:
    """Says why a script isn't run, with its line; "" where it may be.

    Example:
        >>> refusal("import os")
        "line 1: import of 'os', which is none of the pure modules that a script may use"
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"it is no Python: {str(error) or 'nested too deeply'}"
    problems = ((getattr(node, "lineno", 0), problem) for node in nodes for problem in _problems(node))
    line, problem = min(problems, default=(0, ""))
    return f"line {line}: {problem}" if problem else ""


def _problems(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (_foreign(alias.name) for alias in node.names if alias.name not in PURE_MODULES)
    elif isinstance(node, ast.ImportFrom):
        yield from _wrong_from(node)
    elif isinstance(node, ast.Name) and _is_refused(node.id):
        yield f"the name {node.id!r}, which leads out of the script"
    elif isinstance(node, ast.Attribute) and _leads_out(node.attr):
        yield f"the attribute {node.attr!r}, which leads out of the script"
    elif isinstance(node, ast.MatchClass):
        if node.patterns:  # read the attributes that the class names by strings
            yield "a class pattern with parts that have no name, which leads out of the script"
        yield from (
            f"the attribute {name!r}, which leads out of the script" for name in filter(_leads_out, node.kwd_attrs)
        )


def _is_refused(name: str) -> bool:
    return name in _REFUSED_NAMES or (name.startswith("__") and name not in _ALLOWED_NAMES)


def _wrong_from(node: ast.ImportFrom) -> Iterator[str]:
    module = node.module or ""
    if node.level or module not in PURE_MODULES:
        yield _foreign("." * node.level + module)
        return
    public = getattr(importlib.import_module(module), "__all__", None)
    for alias in node.names:
        if _leads_out(alias.name) or alias.name in _REFUSED_NAMES or (public and alias.name not in {*public, "*"}):
            yield f"import of {alias.name!r} from {module!r}, which is no public name of a computation"


def _leads_out(attribute: str) -> bool:
    """True for an attribute behind which another module, a frame or a type's insides may stand."""
    named = attribute in _REFUSED_NAMES or attribute in _OTHER_MODULES
    return named or attribute.startswith(_REFUSED_PREFIXES)


def _foreign(module: str) -> str:
    return f"import of {module!r}, which is none of the pure modules that a script may use"
