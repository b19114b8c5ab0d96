"""`python -m failuremap.audit.called FILE NAME ARGUMENTS` calls one function of a file: a rank of a job under test."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path


def call(path: Path, name: str, arguments: str) -> None:
    """Loads a file as a module of its own name and calls a function in it.

    Args:
        path: The file.
        name: The function.
        arguments: JSON: a list of positional arguments and an object of keyword arguments.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    positional, keywords = json.loads(arguments)
    getattr(module, name)(*positional, **keywords)


if __name__ == "__main__":
    call(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
