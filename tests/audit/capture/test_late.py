"""Something is done when a module is imported: at once, later, or never; and the import stays what it was."""

from __future__ import annotations

import importlib
import sys

import pytest

pytestmark = pytest.mark.torch


@pytest.fixture
def after_import():
    pytest.importorskip("torch")
    from failuremap.audit.capture.late import after_import

    return after_import


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that nobody has imported, and its name."""
    (tmp_path / "rarely_imported.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield "rarely_imported"
    sys.modules.pop("rarely_imported", None)


def test_it_is_done_when_the_module_has_been_executed(after_import, module):
    seen = []
    after_import(module, lambda found: seen.append(found.VALUE))

    assert seen == []
    assert importlib.import_module(module).VALUE == 1
    assert seen == [1]


def test_it_is_done_at_once_where_the_module_is_there(after_import, module):
    importlib.import_module(module)
    seen = []
    after_import(module, lambda found: seen.append(found.VALUE))

    assert seen == [1]


def test_other_modules_do_nothing(after_import, module, tmp_path):
    (tmp_path / "another.py").write_text("")
    seen = []
    after_import(module, seen.append)
    importlib.import_module("another")

    assert seen == []


def test_a_module_that_does_not_exist_is_still_an_error(after_import, module):
    after_import("no_such_module_anywhere", lambda _: None)

    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_anywhere")


def test_it_is_done_once(after_import, module):
    seen = []
    after_import(module, seen.append)
    importlib.reload(importlib.import_module(module))

    assert len(seen) == 1


def test_the_loader_is_left_as_it_was(after_import, module):
    after_import(module, lambda _: None)
    loader = importlib.import_module(module).__spec__.loader

    assert "exec_module" not in vars(loader)
    assert not any(type(finder).__name__ == "_Waiting" for finder in sys.meta_path)
