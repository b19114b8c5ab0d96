"""The files that this interpreter needs to run in a box, found in what it has loaded itself."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import sysconfig
from pathlib import Path

# Those whose extension modules load libraries of the system.
_WITH_LIBRARIES = "ctypes", "decimal", "math", "resource", "zlib"


def real_python() -> str:
    """Returns the interpreter's own file, past the links of a virtual environment."""
    return os.path.realpath(sys.executable)


@functools.cache
def bound_folders() -> list[tuple[str, list[str]]]:
    """Returns the folders of the standard library, each with the folders inside it that stay hidden."""
    library = sysconfig.get_path("stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix})
    hidden = [str(path) for name in ("site-packages", "dist-packages") if (path := Path(library, name)).is_dir()]
    return [(library, hidden)]


@functools.cache
def bound_files() -> list[tuple[str, str]]:
    """Returns the interpreter, its loader and its shared libraries, each with its path in the box."""
    for name in _WITH_LIBRARIES:
        importlib.import_module(name)
    found = {real_python(): real_python()}
    for path in sorted(_mapped()):
        for alias in _aliases(path):
            found[alias] = path
    if loader := _loader(real_python()):
        found[loader] = os.path.realpath(loader)
    return [(path, at) for at, path in sorted(found.items())]


@functools.cache
def library_folder() -> str | None:
    """Returns the folder of libpython where the interpreter is not all in one file."""
    return next((str(Path(path).parent) for path in sorted(_mapped()) if "/libpython" in path), None)


def _mapped() -> set[str]:
    """Returns the shared libraries in this process, without extension modules and what packages bring."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if ".so" in line}
    ours = tuple(folder for folder, _ in bound_folders())
    return {path for path in paths if not path.startswith(ours) and "-packages/" not in path and Path(path).exists()}


def _aliases(path: str) -> list[str]:
    """Returns the names under which a library's own folder holds it."""
    stem = Path(path).name.split(".so")[0]
    return [str(each) for each in Path(path).parent.glob(f"{stem}.so*") if os.path.realpath(each) == path]


def _loader(program: str) -> str | None:
    """Returns the path at which an ELF program names its loader."""
    with open(program, "rb") as file:
        head = file.read(4096)
    start = head.find(b"/lib")
    return head[start : head.index(b"\0", start)].decode() if start >= 0 else None
