"""The files that this interpreter needs to run in a box, found in what it has loaded itself."""

from __future__ import annotations

import functools
import importlib
import os
import struct
import sys
from pathlib import Path

# Their extension modules load libraries of the system.
_WITH_LIBRARIES = "ctypes", "decimal", "math", "resource"
_PACKAGES = "site-packages", "dist-packages"
_PT_INTERP = 3


@functools.cache
def real_python() -> str:
    """Returns the interpreter's own file, past the links of a virtual environment."""
    return os.path.realpath(sys.executable)


def unreadable() -> str | None:
    """Returns why this user could not start the interpreter in a box, or None.

    A process that was root and has become another user still runs what that user could not start again.
    """
    paths = real_python(), str(Path(os.__file__).parent)
    closed = [path for path in paths if not os.access(path, os.R_OK | os.X_OK)]
    if not closed:
        return None
    return f"python={closed[0]} cannot be read by uid={os.geteuid()}; use a Python outside folders of another user's"


@functools.cache
def bound_folders() -> list[tuple[str, list[str]]]:
    """Returns the folders of the standard library, each with the folders inside it that stay hidden."""
    library = str(Path(os.__file__).parent)
    extensions = [path for path in sys.path if path.endswith("lib-dynload") and not path.startswith(library)]
    hidden = [str(path) for name in _PACKAGES if (path := Path(library, name)).is_dir()]
    return [(library, hidden), *((path, []) for path in extensions)]


@functools.cache
def bound_files() -> list[tuple[str, str]]:
    """Returns the interpreter, its loader and its shared libraries, each with its path in the box."""
    found = {alias: path for path in _mapped() for alias in _aliases(path)}
    found[real_python()] = real_python()
    if loader := _loader(real_python()):
        found[loader] = os.path.realpath(loader)
    return [(path, at) for at, path in sorted(found.items())]


@functools.cache
def library_folder() -> str | None:
    """Returns the folder of libpython where the interpreter is not all in one file."""
    return next((str(Path(path).parent) for path in sorted(_mapped()) if "/libpython" in path), None)


@functools.cache
def _mapped() -> frozenset[str]:
    """Returns the shared libraries in this process, without extension modules and what packages bring."""
    if sys.platform != "linux":
        return frozenset()
    for name in _WITH_LIBRARIES:
        importlib.import_module(name)
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if ".so" in line}
    ours = tuple(folder for folder, _ in bound_folders())
    return frozenset(
        path for path in paths if Path(path).is_file() and not path.startswith(ours) and "-packages/" not in path
    )


def _aliases(path: str) -> list[str]:
    """Returns the names under which a library's own folder holds it."""
    stem = Path(path).name.split(".so")[0]
    return [str(each) for each in Path(path).parent.glob(f"{stem}.so*") if os.path.realpath(each) == path]


def _loader(program: str) -> str | None:
    """Returns the loader that a 64-bit ELF program names."""
    content = Path(program).read_bytes()
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for at in range(table, table + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at)
        if kind == _PT_INTERP:
            return content[offset : offset + length].rstrip(b"\0").decode()
    return None
