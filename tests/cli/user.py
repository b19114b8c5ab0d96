"""Someone at a terminal: failuremap as a real process, in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from audit.launch_helpers import clean_environment, write_script

PYTHON = sys.executable


class User:
    """Someone in a folder with a script that needs no torch; temporary files go to a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()

    def start(self, *words: str, stdout: Any = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PYTHON, "-m", "failuremap", *words],
            cwd=self.folder,
            env=clean_environment(TMPDIR=str(self.temporary), COLUMNS="100", **environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Run failuremap; return exit code, stdout and stderr."""
        process = self.start(*words, **environment)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def script(self, source: str) -> Path:
        return write_script(self.folder, source)
