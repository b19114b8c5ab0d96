"""The reference that an audit compares with, `FILE:FUNCTION`: checked before the job, run in a process after it.

The file is read and not imported here: the supervisor stays small, and what the file does is done once.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from failuremap.errors import InvalidArgument

GRADIENTS = "reference.gradients"
"""The file of the trace folder that holds what the reference computed, in the format of a trace."""

FAILED = "reference.failed"
"""The file that says why there is none, where the run itself failed."""

NUMBERED = re.compile(r" #\d+$")
"""What the audit puts behind the name of a parameter where another model has one of that name."""

_STDERR = 2
_EXAMPLE = "as in  --reference ref.py:objective"
_SIGNATURE = "def objective(model, batch): ... return loss_sum, count"


@dataclass(frozen=True)
class Reference:
    """A file with an objective, and what else it defines.

    Args:
        path: The Python file.
        function: The objective in it, `objective(model, batch) -> (loss_sum, count)`.
        names: All names that the file defines at its top level.
    """

    path: Path
    function: str
    names: frozenset[str]

    @property
    def wanted(self) -> str:
        """What the job must keep for it, beside batches and weights: see capture/keeping.py."""
        kept = ["model"] if "build" not in self.names else []
        return ",".join(kept + (["every-rank"] if {"shards", "stages"} & self.names else []))

    def run(self, folder: Path, timeout: float | None) -> None:
        """Compute the gradients of one process for the windows that the job kept in a folder.

        Whatever goes wrong stands in the folder afterwards, as the reason for which nothing was compared.
        """
        where = [str(self.path.parent), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FAILUREMAP_")}
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            environment.pop(name, None)
        command = [sys.executable, "-m", "failuremap.audit.capture.reference"]
        command += [str(folder), str(self.path), self.function]
        try:
            done = subprocess.run(
                command,
                env={**environment, "PYTHONPATH": os.pathsep.join(where)},
                stdin=subprocess.DEVNULL,
                stdout=_STDERR,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            (folder / FAILED).write_text(f"it was still running after {timeout:g} s (--timeout {timeout:g})")
        else:
            if done.returncode:
                (folder / FAILED).write_text(f"its process exited with code {done.returncode}")


def find_reference(text: str) -> Reference:
    """Find the objective that the user names.

    Args:
        text: `FILE:FUNCTION`.

    Raises:
        InvalidArgument: There is no such file, no such function in it, or the file is no Python.
    """
    name, colon, function = text.rpartition(":")
    if not colon or not name or not function.isidentifier():
        raise InvalidArgument(f"--reference={text!r}: a file and a function in it, {_EXAMPLE}")
    path = Path(name).absolute()
    if not path.is_file():
        raise InvalidArgument(f"--reference={text!r}: the file {name!r} doesn't exist (looked in {str(Path.cwd())!r}).")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), name)
    except (SyntaxError, UnicodeDecodeError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise InvalidArgument(f"--reference={text!r}: {name}{line} is no Python: {error}") from error
    names = frozenset(_defined(tree))
    if function not in names:
        found = ", ".join(sorted(node.name for node in tree.body if isinstance(node, ast.FunctionDef))) or "none"
        raise InvalidArgument(
            f"--reference={text!r}: {name} has no function {function!r} (its functions: {found}). "
            f"It is to compute the loss of one batch:  {_SIGNATURE}"
        )
    return Reference(path, function, names)


def _defined(tree: ast.Module) -> list[str]:
    """Names that the statements of a file define, those in its ifs and tries included."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node.id)
        elif isinstance(node, ast.ImportFrom):
            found += [alias.asname or alias.name for alias in node.names]
    return found
