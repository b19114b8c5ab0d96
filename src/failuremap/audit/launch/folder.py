"""The folder that one run writes its trace to: chosen, claimed for that run, and removed if nobody asked for it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from failuremap.errors import InvalidArgument


@dataclass(frozen=True)
class TraceFolder:
    """Where a run's trace goes; `temporary` is a folder that is removed after the verdict."""

    path: Path
    temporary: bool

    @contextlib.contextmanager
    def claimed(self, run_id: str, *, remove: bool = True) -> Iterator[Path]:
        """Create the folder, mark it as this run's, and remove it at the end if it is temporary and `remove` is set.

        After a fault of our own the folder stays: the run that it tells of may have taken hours.

        Raises:
            InvalidArgument: It cannot be written to, or another run's trace is in it.
        """
        try:
            self._claim(run_id)
        except OSError as error:
            raise InvalidArgument(
                f"--trace={str(self.path)!r} can't be written: {error.strerror}. Name a folder that you can write to."
            ) from error
        keep = not (self.temporary and remove)
        try:
            yield self.path
        except InvalidArgument:
            self._unclaim(run_id)
            raise
        except Exception as fault:
            keep = True
            fault.add_note(f"The trace is kept:  failuremap diagnose {self.path}")
            raise
        finally:
            if not keep:
                shutil.rmtree(self.path, ignore_errors=True)

    def _claim(self, run_id: str) -> None:
        """Mark the folder as this run's; the ranks of one run may do so at the same time."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700 if self.temporary else 0o777)
        claim = self._claim_file(run_id)
        traces = sorted(entry.name for entry in self.path.iterdir() if entry.suffix in (".trace", ".exit", ".claim"))
        if traces and not claim.exists():
            raise InvalidArgument(
                f"--trace={str(self.path)!r} holds another run's trace ({traces[0]!r}): a folder holds one run. "
                "Name a new folder, or remove that trace."
            )
        claim.touch()

    def _unclaim(self, run_id: str) -> None:
        """Leave nothing of a run that could not be started."""
        self._claim_file(run_id).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def _claim_file(self, run_id: str) -> Path:
        return self.path / f"run-{run_id}.claim"


def choose_folder(trace: str | None, run_id: str) -> TraceFolder:
    """Choose the folder that the user named, else a temporary one, which all ranks that know the run's id agree on."""
    if trace:
        return TraceFolder(Path(trace).absolute(), temporary=False)
    return TraceFolder(Path(tempfile.gettempdir()).absolute() / f"failuremap-{run_id}", temporary=True)
