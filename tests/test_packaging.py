"""The wheel carries what the source tree has: every module, and the files that are no modules."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src"


def wanted_files() -> set[str]:
    """Return every file of the package that is no left-over of a run, as path inside the wheel."""
    return {
        str(path.relative_to(PACKAGE))
        for path in (PACKAGE / "failuremap").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory):
    """The names of the files in a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    copied = ["pyproject.toml", "README.md", "LICENSE", "src/failuremap"]
    for name in copied:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", ROOT / name, tree / name], check=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, tree]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("failuremap-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_has_every_file_of_the_package(wheel_files):
    assert wanted_files() - wheel_files == set()


def test_the_wheel_has_nothing_but_the_package(wheel_files):
    tops = {name.split("/", maxsplit=1)[0] for name in wheel_files}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"failuremap"}


@pytest.mark.parametrize("ending", ["failuremap/py.typed", "bootstrap/sitecustomize.py", ".html"])
def test_the_package_has_files_that_a_careless_wheel_forgets(ending):
    assert any(name.endswith(ending) for name in wanted_files())
