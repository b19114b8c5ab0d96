"""Processes that a rank starts beside its training: workers of data loaders, probes, evaluations. They are no ranks.

What they train of their own is none of the job's, and a second trace of one rank would say that two jobs ran. They
leave a file each, so that the verdict can say that something was not measured.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

# whose children a process and its children are: the process that writes a trace, its rank, the number of ranks
_VARIABLE = "FAILUREMAP_TRACED_IN"


def place() -> tuple[int, int]:
    """This process's rank and the number of ranks: the process group's word, else the launcher's."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def is_beside(folder: Path) -> bool:
    """Whether this process is none of the job's ranks, but one that a rank has started; it then leaves word of it.

    A process that is started as another rank, or as one of other ranks, is a rank of its own.

    Args:
        folder: That of the traces.
    """
    data = sys.modules.get("torch.utils.data")
    process, _, its_place = os.environ.get(_VARIABLE, "").partition(" ")
    works = data is not None and data.get_worker_info() is not None
    if not works and (its_place != _place() or process == str(os.getpid())):
        return False
    (folder / f"beside-rank{place()[0]:05d}-{os.getpid()}.txt").touch()
    return True


def tell_children() -> None:
    """Lets the processes that this one starts from now on know that they are no ranks."""
    os.environ[_VARIABLE] = f"{os.getpid()} {_place()}"


def _place() -> str:
    return "{} of {}".format(*place())
