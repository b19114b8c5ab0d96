"""An audit inside a test: what the fixture `audit` of the pytest plugin is, usable without pytest, too."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from failuremap.audit import probes
from failuremap.errors import InvalidArgument

if TYPE_CHECKING:
    from failuremap.audit.model import Verdict
    from failuremap.audit.session import Promise

Target = str | os.PathLike[str] | Callable[..., object]


@dataclass(frozen=True)
class Audited:
    """A job that was audited, with its verdict."""

    verdict: Verdict
    report: str
    """The verdict as `failuremap audit` prints it."""

    def assert_right(self) -> None:
        """Fails unless the verdict is "right"; the message is the audit's report.

        Raises:
            AssertionError: It is another one, also where the job could not be judged.
        """
        __tracebackhide__ = True
        if self.verdict.outcome != "right":
            raise AssertionError(f"the audit says {self.verdict.outcome!r}, expected 'right'\n{self.report}")

    def assert_named(self, slug: str) -> None:
        """Fails unless the job is wrong and this mechanism is among those that fit.

        Args:
            slug: As in `failuremap list`.

        Raises:
            AssertionError: The job is not wrong, or has another name.
        """
        __tracebackhide__ = True
        named = self.names
        if slug not in named:
            names = f" with {', '.join(named)}" if named else ""
            raise AssertionError(f"the audit says {self.verdict.outcome!r}{names}, expected {slug!r}\n{self.report}")

    @property
    def names(self) -> list[str]:
        """The slugs of all mechanisms that fit what is wrong."""
        found = (one.slug for finding in self.verdict.findings for one in finding.candidates)
        return list(dict.fromkeys(found))


class Auditor:
    """Runs jobs under the audit.

    Args:
        places: Folders in which a script is looked for, one after the other; the job runs in the working directory.
    """

    sizes = staticmethod(probes.sizes)
    """Batch sizes by rank and micro-batch whose ratios tell their cause: `audit.sizes(nproc, micro_batches)`."""

    def __init__(self, *places: Path) -> None:
        self._places = places

    def __call__(  # noqa: PLR0913 - the options of `failuremap audit`
        self,
        target: Target,
        *args: str,
        nproc: int = 1,
        unit: str | None = None,
        promise: Promise = "mean",
        every: int = 1,
        timeout: float | None = 600,
        env: Mapping[str, str] | None = None,
        **keywords: Any,
    ) -> Audited:
        """Runs a job to its end and judges it.

        Args:
            target: A script; or a function of a module, which each rank calls in a process of its own.
            args: Arguments of the script.
            nproc: Ranks; 1: one process.
            unit: token, example or sequence; None: found out from the losses.
            promise: "mean" or "sum".
            every: All parameters are read at two optimizer steps of so many; 1: at every step.
            timeout: Seconds after which the job is stopped.
            env: Variables that the job gets beside those of this process.
            keywords: Arguments of the function, of types that JSON has.

        Raises:
            InvalidArgument: There is no such script, or the function cannot be called in another process.
        """
        from failuremap.audit import session
        from failuremap.audit.launch import Job
        from failuremap.audit.report.terminal import text

        if callable(target):
            argv = _command(target, args, keywords)
        elif keywords:
            raise InvalidArgument(f"{', '.join(keywords)}: a script takes no keyword arguments; give options as words.")
        else:
            argv = (str(self._found(target)), *args)
        with tempfile.TemporaryDirectory(prefix="failuremap-") as folder, _environment(env or {}):
            job = Job(argv, nproc, timeout, Path(folder), uuid.uuid4().hex[:16], every=every)
            verdict = session.audit(job, unit, promise)
        return Audited(verdict, text(verdict))

    def _found(self, script: str | os.PathLike[str]) -> Path:
        candidates = [place / script for place in (*self._places, Path.cwd())]
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        looked = ", ".join(dict.fromkeys(str(candidate.parent) for candidate in candidates))
        raise InvalidArgument(f"script={os.fspath(script)!r} doesn't exist (looked in {looked}): check the path.")


def _command(function: Callable[..., object], args: Sequence[str], keywords: Mapping[str, Any]) -> tuple[str, ...]:
    name = getattr(function, "__qualname__", repr(function))
    source = inspect.getsourcefile(inspect.unwrap(function)) if inspect.isfunction(function) else None
    if source is None or not name.isidentifier():
        raise InvalidArgument(
            f"target={name}: each rank calls it in a process of its own, so it has to be a function that stands at the "
            "top level of a file."
        )
    try:
        arguments = json.dumps([list(args), dict(keywords)])
    except TypeError as error:
        raise InvalidArgument(f"arguments of {name}: {error}; give numbers, strings, lists and dicts.") from error
    return ("-m", "failuremap.audit.called", str(Path(source).resolve()), name, arguments)


@contextlib.contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    """Lets what is started in the block have these variables, and find the modules that this process finds."""
    search_path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109 - what '' means there
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", *added)}
    os.environ.update({"PYTHONPATH": search_path, **added})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
