"""How a run of the audited script ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass


@dataclass(frozen=True)
class Ending:
    """The end of a run: exit codes by rank, as `subprocess` gives them (negative: the signal that killed it).

    Args:
        exit_codes: One for each rank; one alone where the script was started once.
        timed_out: The script was still running after `timeout` seconds and was stopped.
        interrupted: The audit got SIGINT, SIGTERM or SIGHUP, and passed it on.
        seconds: From the start of the first process to the end of the last.
        first_failed: The rank that failed before any other was stopped; None where none did.
        timeout: The limit in seconds, as the user gave it.
    """

    exit_codes: tuple[int, ...]
    timed_out: bool = False
    interrupted: bool = False
    seconds: float = 0.0
    first_failed: int | None = None
    timeout: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the script did anything but end by itself with code 0 on every rank."""
        return self.timed_out or self.interrupted or any(self.exit_codes)

    @property
    def exit_code(self) -> int:
        """The exit code of the rank that failed first, 0 if none failed."""
        if self.first_failed is not None:
            return self.exit_codes[self.first_failed]
        return next((code for code in self.exit_codes if code), 0)

    @property
    def sentence(self) -> str:
        """What happened, in words: 'rank 1 was killed by SIGKILL'."""
        if self.first_failed is not None:
            return self._rank_sentence(self.first_failed)
        if self.timed_out:
            limit = f"{self.timeout:g}" if self.timeout is not None else "?"
            return f"the script was still running after {limit} s (--timeout {limit}) and was stopped"
        if self.interrupted:
            return f"the script was interrupted after {self.seconds:.0f} s"
        failed = [rank for rank, code in enumerate(self.exit_codes) if code]
        return self._rank_sentence(failed[0] if failed else 0)

    def _rank_sentence(self, rank: int) -> str:
        code = self.exit_codes[rank]
        who = f"rank {rank}" if len(self.exit_codes) > 1 and code else "the script"
        return f"{who} was killed by {signal_name(-code)}" if code < 0 else f"{who} exited with code {code}"


def signal_name(number: int) -> str:
    """Name a signal: 9 is 'SIGKILL'; a number without a name is 'signal 40'."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
