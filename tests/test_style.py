"""STYLE.md's list of where we break it is true."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "failuremap"
LONG = 300


def named_files(text: str) -> set[str]:
    """Return the files that the last section of STYLE.md names."""
    section = text.split("## Where we break it today")[1]
    return set(re.findall(r"`([\w/]+\.py)`", section))


def long_files(folder: Path) -> set[str]:
    """Return the Python files below a folder that are past 300 lines."""
    paths = folder.rglob("*.py")
    return {str(path.relative_to(folder)) for path in paths if path.read_text(encoding="utf-8").count("\n") > LONG}


def test_the_long_files_are_those_that_the_style_page_names():
    assert named_files((ROOT / "STYLE.md").read_text(encoding="utf-8")) == long_files(SOURCE)


def test_a_long_file_is_found(tmp_path):
    (tmp_path / "long.py").write_text("x = 1\n" * (LONG + 1))
    (tmp_path / "short.py").write_text("x = 1\n" * LONG)

    assert long_files(tmp_path) == {"long.py"}
