"""Starts the processes of a job, waits for them, stops them when it must, and cleans up after them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import FrameType

from failuremap.audit.launch.ending import Ending
from failuremap.audit.launch.job import MARKER, Job
from failuremap.audit.launch.leftovers import end_leftovers
from failuremap.errors import InvalidArgument

FAILURE_SECONDS = 3.0
"""How long the other ranks go on after one failed: enough for tracebacks of their own."""

KILL_SECONDS = 5.0
"""How long a rank has to end after SIGTERM, before SIGKILL."""

INTERRUPT_SECONDS = 30.0
"""How long a rank has to end after a signal was passed on to it (a checkpoint takes a while); a second one ends it."""

_POLL_SECONDS = 0.02
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1


def run(job: Job) -> Ending:
    """Run the job to its end, whichever it is, and leave no process behind.

    stdout and stderr are inherited; stdin goes to rank 0. Every rank is the leader of a session of its own. When a rank
    fails, the others get SIGTERM after 3 s and SIGKILL 5 s later; a timeout does the same at once. SIGINT, SIGTERM and
    SIGHUP are passed on; a second one kills.

    Raises:
        InvalidArgument: The system refuses to start the command.
    """
    supervisor = _Supervisor(job)
    with _handled(supervisor.forward):
        try:
            supervisor.start()
            supervisor.wait()
        finally:
            supervisor.clean_up()
    return supervisor.ending()


class _Supervisor:
    """The processes of one run and what is due to happen to them."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.marker = uuid.uuid4().hex
        self.processes: list[subprocess.Popen[bytes]] = []
        self.started_at = time.monotonic()
        self.ended_at = self.started_at
        self.terminate_at: float | None = None
        self.kill_at: float | None = None
        self.first_failed: int | None = None
        self.timed_out = False
        self.received: int | None = None

    def start(self) -> None:
        command, environments = self.job.command, self.job.environments(self.marker)
        for rank, environment in enumerate(environments):
            try:
                self.processes.append(self._start_one(command, environment, rank))
            except OSError as error:
                raise InvalidArgument(f"command={command[0]!r} can't be started: {error.strerror}.") from error
        if self.received is not None:
            self._send(self.received)

    def _start_one(self, command: list[str], environment: dict[str, str], rank: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=None if rank == 0 else subprocess.DEVNULL,
            stdout=sys.stderr.fileno() if self.job.output_to_stderr else None,
            start_new_session=True,
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - one system call, looked up before the fork
        )

    def wait(self) -> None:
        while self._running():
            self._watch(time.monotonic())
            time.sleep(_POLL_SECONDS)
        self._note_failure()

    def _watch(self, now: float) -> None:
        self._note_failure()
        stopping = self.first_failed is not None or self.received is not None or self.timed_out
        if not stopping and self.job.timeout is not None and now - self.started_at >= self.job.timeout:
            self.timed_out, self.terminate_at = True, now
        if self.terminate_at is not None and now >= self.terminate_at:
            self.terminate_at, self.kill_at = None, now + KILL_SECONDS
            self._send(signal.SIGTERM)
        if self.kill_at is not None and now >= self.kill_at:
            self._send(signal.SIGKILL)

    def _note_failure(self) -> None:
        """Remember the first rank that failed by itself: those that end after a signal of ours did not."""
        if self.first_failed is not None or self.received is not None or self.timed_out:
            return
        failed = [rank for rank, process in enumerate(self.processes) if _exit_code(process)]
        if failed:
            self.first_failed, self.terminate_at = failed[0], time.monotonic() + FAILURE_SECONDS

    def forward(self, number: int, _frame: FrameType | None) -> None:
        """Pass a signal on; the second one means now."""
        now = time.monotonic()
        self.kill_at = now + INTERRUPT_SECONDS if self.received is None else now
        self.received = number
        self._send(number)

    def _send(self, number: int) -> None:
        """Signal the ranks that still run: SIGINT and SIGKILL to their groups, as a terminal would, others to them."""
        send = os.killpg if number in (signal.SIGINT, signal.SIGKILL) else os.kill
        for process in self._running():
            with contextlib.suppress(OSError):
                send(process.pid, number)

    def _running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self.processes if _exit_code(process) is None]

    def clean_up(self) -> None:
        self._send(signal.SIGKILL)
        self.ended_at = time.monotonic()
        end_leftovers([process.pid for process in self.processes], f"{MARKER}={self.marker}")
        for process in self.processes:
            process.wait()

    def ending(self) -> Ending:
        return Ending(
            exit_codes=tuple(process.returncode for process in self.processes),
            timed_out=self.timed_out,
            interrupted=self.received is not None,
            seconds=self.ended_at - self.started_at,
            first_failed=self.first_failed,
            timeout=self.job.timeout,
        )


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Ask for the exit code without waiting for the process: its number stays taken until its session is gone."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll()
    result = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _die_with_parent() -> Callable[[], None] | None:
    """Return what a new process calls so that it is killed should the supervisor be; only Linux can do it."""
    if not sys.platform.startswith("linux"):
        return None
    prctl, supervisor = ctypes.CDLL(None).prctl, os.getpid()

    def call() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)

    return call


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that end a process, except those that were ignored at the start (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
