"""A process that is asked one line at a time, and is trusted with nothing."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence

from failuremap.score.box import interpreter
from failuremap.score.stopped import Stopped

_CHUNK = 1 << 16
_GLANCE_S = 0.2
"""How often a silent process is looked at: its children may hold the pipe open after its end."""
_PATIENCE_S = 5.0


class Ended(Exception):
    """The process has ended, or has closed its end."""


class Process:
    """A program in a session of its own, with a pipe to it and one from it; every wait has an end.

    Attributes:
        pid: The number of the outermost process.
        waited_s: How long it has been waited for, all together, since this was last set to 0.
    """

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int] = ()) -> None:
        libraries = interpreter.library_folder()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # The same order of sets for the same candidate, and the interpreter finds its own library.
            env={"PYTHONHASHSEED": "0", **({"LD_LIBRARY_PATH": libraries} if libraries else {})},
            cwd="/",
            pass_fds=pass_fds,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin and self._process.stdout
        self._pipes = self._process.stdin, self._process.stdout
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        self._unread = bytearray()
        self.pid = self._process.pid
        self.waited_s = 0.0
        self._inner: list[int] = []

    def await_too(self, pids: Sequence[int]) -> None:
        """Lets `end` wait for processes further inside, whose parent is not this one."""
        with contextlib.suppress(OSError, AttributeError):  # Linux only; one that has ended needs no waiting
            self._inner += [os.pidfd_open(pid) for pid in pids]

    def exchange(self, line: bytes, *, most_bytes: int, wall_s: float, starved_s: Callable[[], float]) -> bytes:
        """Writes a line and returns the next one that comes back, without its end.

        Args:
            line: What is written, its end included.
            most_bytes: The longest answer.
            wall_s: When all waits together have lasted this long, there is no further answer.
            starved_s: How long of it the process could have run, had a processor been free; this time does not count.

        Raises:
            Stopped: The answer is too long, or does not come in time.
            Ended: There will be none.
        """
        began = time.monotonic()
        deadline = began + wall_s - self.waited_s
        try:
            unwritten = self._write(memoryview(line))  # nearly always all of it, without a wait
            while unwritten or b"\n" not in self._unread:
                if len(self._unread) > most_bytes:
                    raise Stopped("output", f"the candidate's answer is longer than output_bytes={most_bytes}")
                if time.monotonic() >= deadline and time.monotonic() >= deadline + starved_s():
                    raise Stopped("timeout", f"the candidate gave no answer within wall_s={wall_s:g}")
                unwritten = self._step(unwritten)
        finally:
            self.waited_s += time.monotonic() - began
        answer, _, self._unread = self._unread.partition(b"\n")
        return bytes(answer)

    def _step(self, unwritten: memoryview) -> memoryview:
        """Waits until something can be written or read, and does it; returns what is left to write."""
        stdin, stdout = (pipe.fileno() for pipe in self._pipes)
        ready = _wait(stdin if unwritten else None, stdout, _GLANCE_S)
        if stdout in ready:
            if not (chunk := os.read(stdout, _CHUNK)):
                raise Ended
            self._unread += chunk
        if not ready and self._process.poll() is not None:
            raise Ended
        return self._write(unwritten) if stdin in ready else unwritten

    def _write(self, unwritten: memoryview) -> memoryview:
        """Writes what the pipe takes at once, and returns what is left."""
        try:
            return unwritten[os.write(self._pipes[0].fileno(), unwritten[:_CHUNK]) :] if unwritten else unwritten
        except BlockingIOError:
            return unwritten
        except BrokenPipeError:
            raise Ended from None

    def complaint(self) -> str:
        """Returns the last line that it has printed to stderr; "" where there is none."""
        self._errors.seek(0)
        lines = self._errors.read(_CHUNK).decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def exit_code(self) -> int:
        """Returns how the process ended; one that goes on without its pipe is ended, and has given itself up: 0."""
        try:
            return self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.end()
            return 0

    def end(self) -> int:
        """Ends the process and its group, waits until nothing holds its pipe, and returns its exit code."""
        if any(pipe.closed for pipe in self._pipes):
            return self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        deadline = time.monotonic() + _PATIENCE_S
        stdout = self._pipes[1].fileno()
        while (left := deadline - time.monotonic()) > 0 and (not _wait(None, stdout, left) or os.read(stdout, _CHUNK)):
            pass
        for inner in self._inner:
            _wait(None, inner, _PATIENCE_S)
            os.close(inner)
        for pipe in (*self._pipes, self._errors):
            pipe.close()
        return code


def _wait(stdin: int | None, stdout: int, seconds: float) -> set[int]:
    """Returns which of two pipes can be used, after so many seconds at most."""
    poll = select.poll()
    poll.register(stdout, select.POLLIN)
    if stdin is not None:
        poll.register(stdin, select.POLLOUT)
    return {pipe for pipe, _ in poll.poll(max(0.0, seconds) * 1000)}
