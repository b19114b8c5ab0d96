"""Where a supervisor stands that some launcher started: its rank, and an id that all ranks of the run agree on.

The ranks do not talk to each other. What they share is their environment and, on one machine, their parent process.
"""

from __future__ import annotations

import hashlib
import os
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from failuremap.audit.launch.leftovers import process_stat
from failuremap.errors import InvalidArgument

_SHARED = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE")


@dataclass(frozen=True)
class Place:
    """A rank among those of a run.

    Args:
        rank: This process's number, from 0.
        world_size: The number of ranks; 1 where no launcher is at work.
        speaks: Whether it is the one on its machine that reports bad usage.
        run_id: The same on every rank of the run, another one after a restart.
        restart: How often the launcher has restarted the ranks.
    """

    rank: int
    world_size: int
    speaks: bool
    run_id: str
    restart: int


def find_place(environment: Mapping[str, str]) -> Place:
    """Read the place from what launchers set: RANK and WORLD_SIZE, and LOCAL_RANK, MASTER_PORT and others if there.

    Raises:
        InvalidArgument: One of them is no count, or RANK is not below WORLD_SIZE.

    Example:
        >>> find_place({"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}).rank
        1
    """
    rank, world_size = _count(environment, "RANK", "0"), _count(environment, "WORLD_SIZE", "1")
    if rank >= world_size:
        raise InvalidArgument(f"RANK={rank} with WORLD_SIZE={world_size}: a rank is below the number of ranks.")
    return Place(
        rank=rank,
        world_size=world_size,
        speaks=_count(environment, "LOCAL_RANK", str(rank)) == 0,
        run_id=uuid.uuid4().hex[:16] if world_size == 1 else _shared_id(environment),
        restart=_count(environment, "TORCHELASTIC_RESTART_COUNT", "0"),
    )


def _count(environment: Mapping[str, str], name: str, default: str) -> int:
    value = environment.get(name, default)
    if not value.isdecimal():
        raise InvalidArgument(f"{name}={value!r} in the environment: a whole number, 0 or more; the launcher sets it.")
    return int(value)


def _shared_id(environment: Mapping[str, str]) -> str:
    known = [environment.get(name, "") for name in _SHARED]
    if environment.get("LOCAL_WORLD_SIZE", environment.get("WORLD_SIZE")) == environment.get("WORLD_SIZE"):
        known += [platform.node(), str(os.getppid()), _start_time(os.getppid())]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _start_time(pid: int) -> str:
    """Read when a process started, so that a later one with its number is another; empty where /proc is absent."""
    try:
        return process_stat(pid)[19]
    except OSError:
        return ""
