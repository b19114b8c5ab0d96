"""Every exception of failuremap.

    FailuremapError
    ├── InvalidArgument (also a ValueError)   a value that cannot be used: says which, what was expected, what to do
    ├── MissingDependency (also an ImportError)  an optional package is absent: says the line that installs it
    ├── JobStopped (also a RuntimeError)      a job that was to stop at the first wrong step: says what is wrong with it
    ├── StepVoid (also a RuntimeError)        a window's gradients are no update: says why, and on which rank
    ├── LawBroken (also an AssertionError)    a backend of aggregation is wrong: says which laws it breaks, and where
    ├── RecordError (also a ValueError)       a record is not what it should be: says which, and in which field
    └── TraceError                            a trace cannot be read: says which file, where and why

Bad *data* in an audit is never an exception: it is an outcome of the verdict ("cannot tell", "not measured") with its
reason.
"""

from __future__ import annotations


class FailuremapError(Exception):
    """The root of every error that failuremap raises on purpose."""


class InvalidArgument(FailuremapError, ValueError):
    """A value given by the user cannot be used; the message names it and what was expected."""


class MissingDependency(FailuremapError, ImportError):
    """An optional package is needed and absent; the message is the line that installs it."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f"{purpose} needs {package}. Install it with:  pip install 'failuremap[{extra}]'")


class JobStopped(FailuremapError, RuntimeError):
    """A step of the job is wrong, and it was asked to stop there; raised before the next optimizer step."""


class StepVoid(FailuremapError, RuntimeError):
    """The gradients of this window are no update; they are dropped, and no weight has changed."""


class LawBroken(FailuremapError, AssertionError):
    """A backend breaks a law of aggregation; the message names each one, with a counterexample."""


class RecordError(FailuremapError, ValueError):
    """A record of the catalogue is not what it should be; the message names the record and the field."""


class TraceError(FailuremapError):
    """A trace file cannot be read as what it should be."""
