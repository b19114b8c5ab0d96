"""The wheel carries what the source tree has: every module, and the files that are no modules."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src"
# What is compiled, and what it is compiled from.
COMPILED, SOURCES = {".so", ".pyd"}, {".c"}


def wanted_files() -> set[str]:
    """Return every file of the package that a wheel carries as it is, as path inside the wheel."""
    return {
        str(path.relative_to(PACKAGE))
        for path in (PACKAGE / "failuremap").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in COMPILED | SOURCES
    }


def compiled(names: set[str]) -> list[str]:
    """Return the names of compiled modules among those of a wheel's files."""
    return [name for name in names if Path(name).suffix in COMPILED]


def copy_of_the_tree(folder: Path) -> Path:
    """Copy what a build reads, without what an editable install compiled."""
    tree = folder / "tree"
    for name in ["pyproject.toml", "README.md", "LICENSE", "src/failuremap"]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", ROOT / name, tree / name], check=True)
    for path in tree.rglob("*"):
        if path.suffix in COMPILED:
            path.unlink()
    return tree


def built_wheel(folder: Path, **environment: str) -> zipfile.ZipFile:
    """Build a wheel from this checkout, under more environment variables."""
    tree = copy_of_the_tree(folder)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, tree]
    built = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("failuremap-*.whl")
    return zipfile.ZipFile(wheel)


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory):
    """The names of the files in a wheel built from this checkout."""
    return set(built_wheel(tmp_path_factory.mktemp("wheel")).namelist())


def test_the_wheel_has_every_file_of_the_package(wheel_files):
    assert wanted_files() - wheel_files == set()


def test_the_wheel_has_no_c_source(wheel_files):
    assert [name for name in wheel_files if Path(name).suffix in SOURCES] == []


def test_the_wheel_has_the_compiled_kernels_where_there_is_a_compiler(require, wheel_files):
    require("cc", "gcc", "clang")

    kernels = sorted(name.split(".")[0] for name in compiled(wheel_files))
    assert kernels == ["failuremap/aggregate/_exact", "failuremap/audit/capture/sketches/_sketch"]


def test_without_a_compiler_the_wheel_is_built_and_sums_by_numpy(tmp_path):
    wheel = built_wheel(tmp_path, CC="no-such-compiler")
    wheel.extractall(tmp_path / "installed")
    code = (
        "import numpy as np; from failuremap.aggregate import exact, exact_blocks; print(exact_blocks.__file__); "
        "print(exact_blocks.kernel, exact.exact_sum([np.ones(2, 'f4')] * 3).tolist())"
    )

    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
    )  # fmt: skip

    assert compiled(set(wheel.namelist())) == []
    where, printed = run.stdout.splitlines()
    assert where.startswith(str(tmp_path))
    assert printed == "None [3.0, 3.0]"


def test_the_sdist_has_the_c_sources(tmp_path):
    tree = copy_of_the_tree(tmp_path)
    code = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"

    subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, check=True)

    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        sources = sorted(name.partition("/src/failuremap/")[2] for name in archive.getnames() if name.endswith(".c"))
    assert sources == ["aggregate/_exact.c", "audit/capture/sketches/_sketch.c"]


def test_the_wheel_has_nothing_but_the_package(wheel_files):
    tops = {name.split("/", maxsplit=1)[0] for name in wheel_files}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"failuremap"}


@pytest.mark.parametrize("ending", ["failuremap/py.typed", "bootstrap/sitecustomize.py", ".html"])
def test_the_package_has_files_that_a_careless_wheel_forgets(ending):
    assert any(name.endswith(ending) for name in wanted_files())
