"""`failuremap.watch`: the audit in jobs that people start themselves, by Slurm, Ray, mp.spawn or in a notebook."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from failuremap.errors import InvalidArgument, MissingDependency

if TYPE_CHECKING:
    from failuremap.audit.capture.recorder import Recorder
    from failuremap.audit.model import Verdict
    from failuremap.audit.scalars import Log

_SHARED = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT")


class Watch:
    """A running audit of this process."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def folder(self) -> Path:
        """Where this process writes its trace."""
        return self._recorder.folder

    def add(self, model: Any) -> None:
        """Watches a model that was built before the watch began.

        Args:
            model: A torch module; its parameters get the names that they have in it.
        """
        for module in model.modules():
            self._recorder.modules.add(module)
        for parameter in model.parameters():
            self._recorder.watch(parameter)

    def log_to(self, log: Log) -> None:
        """Adds a log: on rank 0 it gets the scalars of each step, some steps after it was made."""
        assert self._recorder.notices is not None
        self._recorder.notices.logs.append(log)

    def close(self) -> None:
        """Ends the trace of this process, as its end would; what the job does afterwards is not seen."""
        from failuremap.audit import capture

        capture.finish()

    def verdict(self) -> Verdict:
        """The verdict on the traces that are in the folder now; call `close` before, on all ranks."""
        from failuremap.audit import diagnose

        return diagnose(self.folder)


def watch(  # noqa: PLR0913 - what one line at the top of a script says
    out: str | os.PathLike[str],
    *,
    every: int | None = None,
    stop_on_wrong: bool = False,
    log: Log | None = None,
    model: Any = None,
    unit: str | None = None,
    promise: str = "mean",
) -> Watch:
    """Audits this process of a job from here on; call it at the top of the script, in every process.

    Where an audit runs already (`failuremap audit`, an earlier call) that one goes on, and a line on stderr says so.
    The rank is that of the process group, else RANK. Judge the traces of all ranks with `failuremap diagnose OUT`.

    Args:
        out: Folder for the traces, the same for all ranks, a new one for each run.
        every: All parameters are read at two optimizer steps of so many (64), and at the first few; 1: at all.
        stop_on_wrong: Whether the job stops with `JobStopped` at the first step that is wrong. For that, and for
            the warning in the log of rank 0, rank 0 must see the traces of all ranks: one file system.
        log: Gets scalars on rank 0, as `log(name, value, step)`; see `failuremap.audit.scalars` for adapters.
        model: A torch module that exists already.
        unit: What the loss counts (token, example, sequence); for the warning. None: found out from the losses.
        promise: What the update should be over all units, "mean" or "sum"; for the warning.

    Raises:
        InvalidArgument: `every` is below 1, or the folder cannot be written.
        MissingDependency: There is no torch.
    """
    if every is not None and every < 1:
        raise InvalidArgument(f"every={every}: 1 or more; 1 reads all parameters at every optimizer step.")
    folder = _made(Path(out).absolute())
    try:
        from failuremap.audit import capture
        from failuremap.audit.capture.notices import Notices
        from failuremap.audit.capture.recorder import Recorder
        from failuremap.audit.capture.sampling import EVERY
    except ModuleNotFoundError as error:
        raise MissingDependency("watching a PyTorch job", "torch", "torch") from error
    if capture.current is None:
        recorder = Recorder(folder, "", None, every or EVERY)
        recorder.notices = Notices(stop_on_wrong, logs=[])
        recorder.opening = functools.partial(_open, folder, unit, promise)
        capture.start(recorder)
    else:
        sys.stderr.write(f"failuremap: {_already(capture.current.folder)}\n")
    running = capture.current or recorder
    running.notices = running.notices or Notices(stop=False, logs=[])
    watching = Watch(running)
    if log is not None:
        watching.log_to(log)
    if model is not None:
        watching.add(model)
    return watching


def _already(folder: Path) -> str:
    return f"an audit of this process runs already, with its trace in '{folder}'; failuremap.watch starts no second one"


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"out={str(folder)!r} can't be written: {error.strerror}. Name a folder that you can write to."
        ) from error
    return folder


def _open(folder: Path, unit: str | None, promise: str, rank: int) -> tuple[Path, str]:
    """Where this rank's trace goes, and the run that it is of; rank 0 also starts the look at all traces."""
    mine = _unused(folder, rank)
    if rank == 0:
        from failuremap.audit.launch.looking import start

        start(mine, unit, promise)
    return mine, _run_id(os.environ)


def _unused(folder: Path, rank: int) -> Path:
    """The folder, or one inside it where an earlier run left a trace of this rank: for all ranks the same one."""
    found, number = folder, 1
    while any(found.glob(f"rank{rank:05d}-*.trace")):
        number += 1
        found = folder / f"run{number}"
    if found != folder:
        found.mkdir(exist_ok=True)
        sys.stderr.write(
            f"failuremap: '{folder}' holds a trace of rank {rank} already; this run's is in '{found}'\n" * (rank == 0)
        )
    return found


def _run_id(environment: Mapping[str, str]) -> str:
    """What the ranks of a run have in common, without asking each other."""
    known = "\n".join(environment.get(name, "") for name in _SHARED)
    return hashlib.sha256(known.encode()).hexdigest()[:16]
