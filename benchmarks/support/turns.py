"""Runs the same training script twice at once, plain and audited, and lets the two jobs take their steps in turn.

Neighbouring steps share what else the machine does; their CPU time counts no other program. The plain job knows nothing
of the audit: nothing of it is switched off, it isn't there.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from support.runs import RANK_COUNT, SCRIPT, WARM_UP, command, plain_environment

# a rank that is silent for so long has hung
PATIENCE = 120.0
PLAIN, AUDITED = "plain", "audited"


@dataclass(frozen=True)
class Pairs:
    """What neighbouring steps of the two jobs took."""

    ranks: dict[str, list[dict[str, Any]]]

    def seconds(self, name: str, clock: str, skipped: int = WARM_UP) -> list[float]:
        """What each step of a job took, without the first: wall seconds of the slower rank, or CPU seconds of both."""
        combine = max if clock == "wall" else sum
        steps = zip(*(rank["steps"] for rank in self.ranks[name]), strict=True)
        return [combine(part[clock] for part in step) for step in steps][skipped:]

    def ratios(self, clock: str, skipped: int = WARM_UP) -> list[float]:
        """Audited over plain, pair by pair."""
        audited, plain = (self.seconds(name, clock, skipped) for name in (AUDITED, PLAIN))
        return [with_it / without for with_it, without in zip(audited, plain, strict=True)]

    def differences(self, clock: str) -> list[float]:
        """Audited less plain, pair by pair."""
        audited, plain = (self.seconds(name, clock) for name in (AUDITED, PLAIN))
        return [with_it - without for with_it, without in zip(audited, plain, strict=True)]

    def show(self) -> None:
        """Print both clocks: medians, and how far the ratios of the pairs spread."""
        rank = self.ranks[PLAIN][0]
        print(f"{rank['elements']:,} parameters in {rank['tensors']} tensors")
        print(f"{'':6}{'plain':>10}{'audited':>10}{'ratio':>8}{'half of them':>16}{'error':>8}")
        for clock in ("wall", "cpu"):
            plain, audited = (1e3 * median(self.seconds(name, clock)) for name in (PLAIN, AUDITED))
            ratios = self.ratios(clock)
            low, _, high = quantiles(ratios, n=4)
            figures = f"{median(ratios):8.4f}{f'{low:.3f} to {high:.3f}':>16}{standard_error(ratios):8.4f}"
            print(f"{clock:6}{plain:7.0f} ms{audited:7.0f} ms{figures}", flush=True)


def standard_error(ratios: Sequence[float]) -> float:
    """That of their median, from the quartiles: a few that something else has slowed down say nothing."""
    low, _, high = quantiles(ratios, n=4)
    return 1.25 * (high - low) / 1.35 / len(ratios) ** 0.5


def pairs(args: Sequence[str], steps: int, seconds: float, every: int = 1) -> Pairs:
    """Run both jobs until each has taken so many steps, or the time is over.

    Args:
        args: For the script.
        steps: Of each job, those that warm it up included.
        seconds: For the steps; the jobs' start comes on top.
        every: As for the audit.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        given = [*args, "--steps", str(steps), "--turns", str(server.getsockname()[1])]
        jobs = {
            name: subprocess.Popen(
                [*command(name == AUDITED, None, every), str(SCRIPT), *given, "--out", f"{folder}/{name}"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=plain_environment(),
            )
            for name in (PLAIN, AUDITED)
        }
        try:
            _take_turns(_ranks(server), steps, time.monotonic() + seconds)
        except OSError as error:
            for job in jobs.values():
                job.terminate()
            sys.exit("\n".join(f"{error}\n{job.communicate()[1][-2000:]}" for job in jobs.values()))
        for job in jobs.values():
            job.communicate(timeout=PATIENCE)
        found = {name: [Path(folder) / f"{name}.{rank}.json" for rank in range(RANK_COUNT)] for name in jobs}
        return Pairs({name: [json.loads(path.read_text()) for path in paths] for name, paths in found.items()})


def _ranks(server: socket.socket) -> dict[str, list[socket.socket]]:
    """The ranks of both jobs, as soon as all have said who they are."""
    ranks: dict[str, list[socket.socket]] = {PLAIN: [], AUDITED: []}
    while sum(map(len, ranks.values())) < 2 * RANK_COUNT:
        rank, _ = server.accept()
        rank.settimeout(PATIENCE)
        ranks[_line(rank)].append(rank)
    return ranks


def _line(rank: socket.socket) -> str:
    found = b""
    while not found.endswith(b"\n"):
        if not (more := rank.recv(1)):
            raise OSError("a rank has ended early")
        found += more
    return found.decode().strip()


def _take_turns(ranks: dict[str, list[socket.socket]], steps: int, until: float) -> None:
    """Let the jobs step in turn, plain first in one pair and last in the next; the same number of steps for both."""
    for step in range(steps):
        last = step + 1 == steps or (step > 2 * WARM_UP and time.monotonic() > until)
        for name in (PLAIN, AUDITED) if step % 2 else (AUDITED, PLAIN):
            for rank in ranks[name]:
                rank.sendall(b"last\n" if last else b"step\n")
            for rank in ranks[name]:
                _line(rank)
        if last:
            return
