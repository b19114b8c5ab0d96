"""The examples in docstrings are run: rules, catalogue, aggregate and score."""

from __future__ import annotations

import doctest
import importlib
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for room in ("rules", "catalogue", "aggregate", "score")
    for path in sorted((SOURCE / "failuremap" / room).rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


FRAMEWORKS = {"torch": ("torch",), "jax": ("jax", "optax")}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name, require_module):
    for room, needed in FRAMEWORKS.items():
        for module in needed if f".{room}." in name else ():
            require_module(module)
    importlib.import_module(name)

    result = doctest.testmod(sys.modules[name])

    assert (result.failed, result.attempted > 0) == (0, True)


def test_negative_control_a_wrong_example_is_found(capsys):
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)

    assert doctest.DocTestRunner().run(example).failed == 1
