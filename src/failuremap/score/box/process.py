"""A process that is asked one line at a time, and is trusted with nothing."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence

from failuremap.score.stopped import Stopped

_CHUNK = 1 << 16
_GLANCE_S = 0.2
"""How often a silent process is looked at: children may hold its pipe open after its end."""
_LAST_WORDS_S = 5.0


class Ended(Exception):
    """The process has ended, or has closed its end."""


class Process:
    """A program in a session of its own, with two pipes; every wait has an end."""

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int] = ()) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONHASHSEED": "0"},
            cwd="/",
            pass_fds=pass_fds,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin and self._process.stdout
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._read = bytearray()
        self.waited_s = 0.0

    @property
    def pid(self) -> int:
        """The number of the outermost process."""
        return self._process.pid

    def exchange(self, line: bytes, *, most_bytes: int, until_s: float) -> bytes:
        """Writes a line and returns the next one that comes back.

        Args:
            line: What is written, its end included.
            most_bytes: The longest answer.
            until_s: When all waits together have lasted this long, there is no further answer.

        Raises:
            Stopped: The answer is too long, or does not come in time.
            Ended: There will be none.
        """
        began = time.monotonic()
        try:
            return self._exchange(memoryview(line), most_bytes, began + until_s - self.waited_s)
        finally:
            self.waited_s += time.monotonic() - began

    def _exchange(self, unwritten: memoryview, most_bytes: int, deadline: float) -> bytes:
        while True:
            end = self._read.find(b"\n")
            if end >= 0 and not unwritten:
                line = bytes(self._read[:end])
                del self._read[: end + 1]
                return line
            if len(self._read) > most_bytes:
                raise Stopped("output", f"an answer is longer than output_bytes={most_bytes}")
            unwritten = self._step(unwritten, deadline)

    def _step(self, unwritten: memoryview, deadline: float) -> memoryview:
        """Waits until a part can be written or read, and does it."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise Stopped("timeout", "the wall time is over")
        ready = select.select([self._out], [self._in] if unwritten else [], [], min(left, _GLANCE_S))
        if ready[0]:
            if not (chunk := os.read(self._out, _CHUNK)):
                raise Ended
            self._read += chunk
        if ready[1]:
            try:
                return unwritten[os.write(self._in, unwritten[:_CHUNK]) :]
            except BlockingIOError:
                return unwritten
            except BrokenPipeError:
                raise Ended from None
        if not any(ready) and self._process.poll() is not None:
            raise Ended
        return unwritten

    def end(self) -> int:
        """Ends the process and its group, waits until nothing of it runs, and returns its exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if self._process.stdin is None else 0.0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self._drain()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        return code

    def exit_code(self) -> int:
        """Returns how the process ended of itself; one that goes on without its pipe is ended."""
        try:
            return self._process.wait(_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            return self.end()

    def _drain(self) -> None:
        """Reads until whatever else held the pipe has ended too."""
        deadline = time.monotonic() + _LAST_WORDS_S
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._out], [], [], left)[0] and not os.read(self._out, _CHUNK):
                return
