"""The modules that a script imports are found wherever a statement may stand."""

from __future__ import annotations

import pytest

from failuremap.catalogue.records.parts import imported_modules

PLACES = [
    "{}",
    "if x:\n  {}",
    "if x:\n  pass\nelif y:\n  {}",
    "for x in y:\n  pass\nelse:\n  {}",
    "while x:\n  {}",
    "with x:\n  {}",
    "try:\n  {}\nfinally:\n  pass",
    "try:\n  pass\nexcept E:\n  {}",
    "try:\n  pass\nexcept* E:\n  {}",
    "try:\n  pass\nexcept E:\n  pass\nelse:\n  {}",
    "try:\n  pass\nfinally:\n  {}",
    "match x:\n  case 1:\n    {}",
    "def f():\n  {}",
    "async def f():\n  async with x:\n    async for y in z:\n      {}",
    "class A:\n  def f(self):\n    {}",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("statement", "modules"), [("import a.b, c", {"a", "c"}), ("from a.b import c", {"a"}), ("from . import a", {"."})]
)
def test_an_import_is_found_wherever_a_statement_may_stand(place, statement, modules):
    assert imported_modules(place.format(statement)) == modules


def test_a_text_that_speaks_of_an_import_imports_nothing():
    assert imported_modules("x = 'import a'  # import b\nf = lambda: x") == frozenset()
