"""How each rank tells rank 0 that its script ended: a small file `rank<r>.exit` in the trace folder."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from failuremap.audit.launch.ending import Ending

WAIT_SECONDS = 30.0
"""How long rank 0 waits for the others, once its own script has ended."""

FAILED_WAIT_SECONDS = 3.0
"""The same after a failure: the others may hang until the launcher stops them, and it waits for rank 0."""

_POLL_SECONDS = 0.02


def write_exit(folder: Path, rank: int, ending: Ending) -> None:
    """Write a rank's ending at once and whole; a folder that rank 0 has removed by now needs no word any more."""
    fields = {
        "exit_code": ending.exit_code,
        "timed_out": ending.timed_out,
        "interrupted": ending.interrupted,
        "ended": time.time(),
    }
    part = folder / f"rank{rank}.exit.part"
    with contextlib.suppress(FileNotFoundError):
        part.write_text(json.dumps(fields))
        part.replace(folder / f"rank{rank}.exit")


def gather_exits(folder: Path, world_size: int, own: Ending) -> tuple[Ending, list[int]]:
    """Wait for the endings of all ranks; return them as one, and the ranks of which there is none.

    Args:
        folder: The trace folder, the same one for all ranks.
        world_size: How many ranks there are.
        own: The ending of the rank that waits.
    """
    started = time.monotonic()
    failed_at = started if own.failed else None
    while True:
        exits = _read_exits(folder, world_size)
        now = time.monotonic()
        if failed_at is None and any(map(_failed, exits.values())):
            failed_at = now
        late = now > started + WAIT_SECONDS or (failed_at is not None and now > failed_at + FAILED_WAIT_SECONDS)
        if len(exits) == world_size or late:
            return _together(exits, world_size, own), sorted(set(range(world_size)) - set(exits))
        time.sleep(_POLL_SECONDS)


def _read_exits(folder: Path, world_size: int) -> dict[int, dict[str, Any]]:
    files = {rank: folder / f"rank{rank}.exit" for rank in range(world_size)}
    return {rank: json.loads(file.read_text()) for rank, file in files.items() if file.exists()}


def _failed(one: dict[str, Any]) -> bool:
    return bool(one["exit_code"] or one["timed_out"] or one["interrupted"])


def _together(exits: dict[int, dict[str, Any]], world_size: int, own: Ending) -> Ending:
    """Make one ending of all; a rank without a file counts as 0 here, because it is told of apart."""
    by_itself = [rank for rank, one in exits.items() if one["exit_code"] and not _stopped(one)]
    return Ending(
        exit_codes=tuple(exits[rank]["exit_code"] if rank in exits else 0 for rank in range(world_size)),
        timed_out=any(one["timed_out"] for one in exits.values()),
        interrupted=any(one["interrupted"] for one in exits.values()),
        seconds=own.seconds,
        first_failed=min(by_itself, key=lambda rank: exits[rank]["ended"]) if by_itself else None,
        timeout=own.timeout,
    )


def _stopped(one: dict[str, Any]) -> bool:
    return bool(one["timed_out"] or one["interrupted"])
