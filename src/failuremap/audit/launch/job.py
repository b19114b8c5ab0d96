"""What to run: the audited command, checked before anything is started, and the environment of each rank."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from failuremap.audit.launch.reference import Reference
from failuremap.errors import InvalidArgument, MissingDependency

BOOTSTRAP = Path(__file__).parents[1] / "capture" / "bootstrap"

MARKER = "FAILUREMAP_SUPERVISOR"
"""Environment variable that only the processes of one supervisor have: by it those that ran away are found."""

LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun", "colossalai"})

_EXAMPLE = "as in  failuremap audit -- train.py --epochs 1"


@dataclass(frozen=True)
class Job:
    """A command to audit, and how to start it.

    Args:
        argv: The command: `train.py ARGS`, `-m module ARGS`, or an executable with its arguments.
        nproc: Ranks to start on this machine; None starts the command once and lets it be.
        timeout: Seconds after which the script is stopped; None: never.
        trace_dir: Folder that each rank writes its trace to.
        run_id: The same for all ranks of one run, different for every run.
        steps: Optimizer steps to capture; None: all.
        every: All parameters are read at two steps of so many, and at the first few; 1: at every step.
        stop_on_wrong: Whether the job stops at the first wrong step.
        output_to_stderr: Whether the script's stdout goes to stderr, so that stdout holds the JSON alone.
        reference: What the job is compared with; None: nothing.

    Raises:
        InvalidArgument: The command cannot be started, or a value is out of range.
        MissingDependency: The interpreter that is to run the script has neither torch nor jax.
    """

    argv: tuple[str, ...]
    nproc: int | None
    timeout: float | None
    trace_dir: Path
    run_id: str
    steps: int | None = None
    every: int | None = None
    stop_on_wrong: bool = False
    output_to_stderr: bool = False
    reference: Reference | None = None

    def __post_init__(self) -> None:
        if self.nproc is not None and self.nproc < 1:
            raise InvalidArgument(f"--nproc={self.nproc}: 1 rank or more; leave it out to start the script once.")
        if self.timeout is not None and not self.timeout > 0:
            raise InvalidArgument(f"--timeout={self.timeout:g}: seconds, above 0; leave it out for no limit.")
        if self.steps is not None and self.steps < 1:
            raise InvalidArgument(f"--steps={self.steps}: 1 optimizer step or more; leave it out to see all of them.")
        if self.every is not None and self.every < 1:
            raise InvalidArgument(f"--every={self.every}: 1 or more; 1 reads all parameters at every optimizer step.")
        if self.nproc is not None and self.argv and Path(self.argv[0]).name in LAUNCHERS:
            raise InvalidArgument(
                f"--nproc={self.nproc} with {self.argv[0]!r}: a launcher starts its own ranks; leave --nproc out."
            )
        assert self.command

    @property
    def command(self) -> list[str]:
        """The command line of one process: the script or module with this Python, anything else as it is."""
        if not self.argv:
            raise InvalidArgument(f"no command to audit: name the script after --, {_EXAMPLE}")
        if self.argv[0] == "-m":
            return _python_module(self.argv)
        if Path(self.argv[0]).suffix in (".py", ".pyw", ".pyc"):
            return _python_script(self.argv)
        return _executable(self.argv)

    @property
    def process_count(self) -> int:
        """How many processes are started: `nproc`, or one."""
        return self.nproc or 1

    def environments(self, marker: str) -> list[dict[str, str]]:
        """Build the environment of each process, by rank; all ranks share one free port."""
        shared = {**os.environ, **self._contract(), MARKER: marker}
        if self.nproc is None:
            return [shared]
        shared |= {"WORLD_SIZE": str(self.nproc), "LOCAL_WORLD_SIZE": str(self.nproc)}
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        if self.nproc > 1:
            shared.setdefault("OMP_NUM_THREADS", "1")
        return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(self.nproc)]

    def _contract(self) -> dict[str, str]:
        """Build what the capture reads in every process of the job."""
        contract = {
            "FAILUREMAP_TRACE_DIR": str(self.trace_dir.absolute()),
            "FAILUREMAP_RUN_ID": self.run_id,
            "PYTHONPATH": _before(BOOTSTRAP, os.environ),
        }
        contract |= {} if self.steps is None else {"FAILUREMAP_STEPS": str(self.steps)}
        contract |= {} if self.every is None else {"FAILUREMAP_EVERY": str(self.every)}
        contract |= {} if self.reference is None else {"FAILUREMAP_REFERENCE": self.reference.wanted}
        return {**contract, "FAILUREMAP_STOP_ON_WRONG": "1"} if self.stop_on_wrong else contract


def _before(folder: Path, environment: Mapping[str, str]) -> str:
    """Put the folder before PYTHONPATH; an empty one is left out, because an empty entry means the current folder."""
    rest = environment.get("PYTHONPATH", "")
    return f"{folder}{os.pathsep}{rest}" if rest else str(folder)


def _python_module(argv: tuple[str, ...]) -> list[str]:
    if len(argv) < 2:
        raise InvalidArgument("-m without a module: name it, as in  failuremap audit -- -m package.train --epochs 1")
    _need_framework()
    return [sys.executable, *argv]


def _python_script(argv: tuple[str, ...]) -> list[str]:
    if Path(argv[0]).is_dir():
        raise InvalidArgument(f"script={argv[0]!r} is a folder: name the Python file to run, {_EXAMPLE}")
    if not Path(argv[0]).exists():
        raise InvalidArgument(f"script={argv[0]!r} doesn't exist (looked in {str(Path.cwd())!r}): check the path.")
    _need_framework()
    return [sys.executable, *argv]


def _executable(argv: tuple[str, ...]) -> list[str]:
    if shutil.which(argv[0]):
        return list(argv)
    if Path(argv[0]).is_dir():
        raise InvalidArgument(f"script={argv[0]!r} is a folder: name the Python file to run, {_EXAMPLE}")
    if Path(argv[0]).exists():
        raise InvalidArgument(f"command={argv[0]!r} is neither a .py file nor executable: name a script or a program.")
    raise InvalidArgument(f"command={argv[0]!r} doesn't exist, here ({str(Path.cwd())!r}) or on PATH: check the name.")


def _need_framework() -> None:
    """Look for what a job can be written in, without importing it: the supervisor stays small."""
    if not any(importlib.util.find_spec(name) for name in ("torch", "jax")):
        raise MissingDependency("auditing a job", "torch (or jax)", "torch")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
