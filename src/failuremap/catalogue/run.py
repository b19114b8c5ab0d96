"""A script in a fresh, isolated interpreter -> what it observed.

The script's process has an empty folder, no environment, no site packages, and the limits and the guard of `guard.py`.
Whatever comes of it, its whole process group has ended when `run` returns. This keeps accidents in; it is no sandbox
for a script that wants out.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from failuremap.catalogue import guard

TIME_LIMIT_S = 30.0
MEMORY_LIMIT_BYTES = 1 << 30
OUTPUT_LIMIT_BYTES = 1 << 20
_CHUNK = 1 << 16
# Imported, and not given as a file, the guard is compiled once and not for every script.
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); import guard; guard.main()"
_OVERTIME = guard.SUBJECT + " was still running after {:g} s"
_TOO_MUCH = f"{guard.SUBJECT} printed more than {OUTPUT_LIMIT_BYTES} bytes"
# Some builds of Python find their own library by these.
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True)
class Observation:
    """What one check gave."""

    check: str
    actual: Any
    expected: Any
    passed: bool


@dataclass(frozen=True)
class Run:
    """What one run of a script gave."""

    exit_code: int | None
    """None where the script was stopped."""
    observations: tuple[Observation, ...]
    stdout: str
    stderr: str
    stopped: str = ""
    """Why it was stopped; "" where it came to its own end."""

    @property
    def failed_checks(self) -> list[str]:
        """Names the checks that failed."""
        return [seen.check for seen in self.observations if not seen.passed]


def run(script: str, *, time_limit_s: float = TIME_LIMIT_S, python: str = sys.executable) -> Run:
    """Runs a script's text in a process of its own.

    Args:
        script: A Python text that uses the standard library only.
        time_limit_s: Wall time after which it is stopped.
        python: The interpreter.

    Example:
        >>> run("raise SystemExit(3)").exit_code
        3
        >>> run("open('notes', 'w')").stopped
        "the script writes to the disk: open('notes')"
    """
    with tempfile.TemporaryDirectory(prefix="failuremap-") as folder, tempfile.TemporaryFile() as source:
        source.write(script.encode())
        source.seek(0)
        limits = str(math.ceil(time_limit_s) + 1), str(MEMORY_LIMIT_BYTES)
        process = subprocess.Popen(
            [python, "-I", "-S", "-B", "-X", "utf8", "-c", _START, str(Path(guard.__file__).parent), *limits],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            start_new_session=True,
        )
        with process:
            try:
                return _watched(process, time_limit_s)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)


def _watched(process: subprocess.Popen[bytes], time_limit_s: float) -> Run:
    """Reads what a process prints until it ends, or until it is over a limit."""
    deadline = time.monotonic() + time_limit_s
    printed, stopped = _read(process, deadline)
    stdout, stderr = (bytes(text).decode(errors="replace") for text in printed)
    if not stopped:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            stopped = _OVERTIME
    if stopped:
        return Run(None, (), stdout, stderr, stopped.format(time_limit_s))
    before, _, reason = stderr.rstrip("\n").rpartition("\n")
    if process.returncode == guard.REFUSED and reason.startswith(guard.SUBJECT):
        return Run(None, (), stdout, before, reason)
    return Run(process.returncode, _observations(stdout), stdout, stderr)


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[tuple[bytearray, bytearray], str]:
    """Returns stdout and stderr, and why reading was given up; "" where both came to their end."""
    assert process.stdout and process.stderr
    printed = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for stream, text in zip((process.stdout, process.stderr), printed, strict=True):
            selector.register(stream, selectors.EVENT_READ, text)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready and time.monotonic() >= deadline:
                return printed, _OVERTIME
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
                if len(key.data) > OUTPUT_LIMIT_BYTES:
                    return printed, _TOO_MUCH
    return printed, ""


def _observations(stdout: str) -> tuple[Observation, ...]:
    """Reads the report; a script that printed something else observed nothing."""
    try:
        report = json.loads(stdout, parse_constant=_refuse)
        return tuple(Observation(**seen) for seen in report["observations"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
