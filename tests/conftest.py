"""What all tests share: a tool that a test needs is found, skipped for, or, in CI, demanded."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

from audit.harness import JobServer

# How long an example takes is the machine's affair, and no test's.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def _absent(what: str, advice: str) -> NoReturn:
    """Skip, or fail where FAILUREMAP_REQUIRE is `all` or names the missing thing."""
    demanded = os.environ.get("FAILUREMAP_REQUIRE", "").split(",")
    if "all" in demanded or what in demanded:
        pytest.fail(
            f"{what} is absent, and FAILUREMAP_REQUIRE={','.join(demanded)} demands it; {advice}", pytrace=False
        )
    pytest.skip(f"{what} is absent; {advice}")


def find_tool(*names: str) -> str:
    """Return the path of the first of these programs that is installed; skip, or fail in CI, if none is.

    One that came with this Python's packages goes before the system's.
    """
    places = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    for name in names:
        if path := shutil.which(name, path=places):
            return path
    _absent(names[0], f"install one of: {', '.join(names)}")


def find_module(name: str, advice: str = "") -> None:
    """Return if the Python module can be imported; skip, or fail in CI, if it cannot."""
    if importlib.util.find_spec(name) is None:
        _absent(name, advice or f"install it into .venv: pip install {name}")


def find_folder(path: Path, advice: str) -> Path:
    """Return the folder of what was installed there; skip, or fail in CI, if there is none."""
    if not path.is_dir():
        _absent(path.name, advice)
    return path


@pytest.fixture(scope="session")
def require() -> Callable[..., str]:
    """A function that a test calls for a program: `require("chromium", "chromium-browser")` returns its path."""
    return find_tool


@pytest.fixture(scope="session")
def require_folder() -> Callable[..., Path]:
    """A function that a test calls for what stands in a folder: `require_folder(path, "install it: npm ci")`."""
    return find_folder


@pytest.fixture(scope="session")
def require_module() -> Callable[..., None]:
    """A function that a test calls for an optional Python package: `require_module("torch")`."""
    return find_module


@pytest.fixture(scope="session")
def job_server() -> Iterator[JobServer]:
    """A process that has imported torch and forks the ranks of one job at a time; it starts when a test asks for it."""
    with JobServer() as server:
        yield server


# What a test needs, by the marker that says so.
MODULES = {"torch": ("torch",), "jax": ("jax", "optax"), "mpi": ("mpi4py",), "torchft": ("torchft",)}
PROGRAMS = {"mpi": "mpirun"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ask for the framework on behalf of every test that is marked with it."""
    for marker, modules in MODULES.items():
        if item.get_closest_marker(marker):
            for module in modules:
                find_module(module)
            if marker in PROGRAMS:
                find_tool(PROGRAMS[marker])
