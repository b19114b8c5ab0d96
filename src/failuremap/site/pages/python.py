"""Python for the pages: the files of Pyodide, where the build is given them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from failuremap.errors import InvalidArgument
from failuremap.site.frame import Frame

NEEDED = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")


def pages(frame: Frame) -> Iterator[tuple[str, bytes]]:
    """Yields the files, below `pyodide/`; none without them.

    Raises:
        InvalidArgument: The folder lacks one of them.
    """
    folder = frame.content.pyodide
    if folder is not None:
        yield from ((f"pyodide/{name}", _read(folder, name)) for name in NEEDED)


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise InvalidArgument(
            f"pyodide={str(folder)!r}: {name} can't be read ({error.strerror}); expected the folder of the npm "
            "package: npm install pyodide, then node_modules/pyodide."
        ) from error
