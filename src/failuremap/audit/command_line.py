"""What the audit's two ways in share, `failuremap audit` and `python -m failuremap.audit`: options, errors, outputs."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click

from failuremap.audit.launch import Job
from failuremap.audit.launch.reference import find_reference
from failuremap.audit.model import Verdict
from failuremap.audit.session import Promise
from failuremap.errors import FailuremapError

COMMAND_SETTINGS = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}
"""The first word that is no option starts the audited command; all that follows is its own."""

_USAGE = 2
_OUR_FAULT = 70
_INTERRUPTED = 130

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Options:
    """The values of `judging_options` and `running_options`."""

    unit: str | None
    promise: Promise
    json_path: str | None
    html_path: str | None
    junit_path: str | None = None
    sarif_path: str | None = None
    steps: int | None = None
    every: int | None = None
    stop_on_wrong: bool = False
    timeout: float | None = None
    trace: str | None = None
    reference: str | None = None


def _together(*decorators: Decorator) -> Decorator:
    """Make one decorator of several, the first outermost."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


judging_options = _together(
    click.option(
        "--unit",
        type=click.Choice(["token", "example", "sequence"]),
        help="What the loss is a mean over. Default: found out from the loss functions.",
    ),
    click.option(
        "--promise",
        type=click.Choice(["mean", "sum"]),
        default="mean",
        show_default=True,
        help="What the update should be over all units of a step.",
    ),
    click.option("--json", "json_path", metavar="FILE", help="Write the verdict as JSON; - is stdout."),
    click.option("--html", "html_path", metavar="FILE", help="Write the verdict as an HTML page that stands alone."),
    click.option("--junit", "junit_path", metavar="FILE", help="Write the verdict as JUnit XML, for CI servers."),
    click.option("--sarif", "sarif_path", metavar="FILE", help="Write the verdict as SARIF 2.1.0, for code hosts."),
)
"""How to judge a trace, and where the verdict goes."""

running_options = _together(
    click.option("--steps", type=int, envvar="FAILUREMAP_STEPS", metavar="K", help="Capture K optimizer steps only."),
    click.option(
        "--every",
        type=int,
        envvar="FAILUREMAP_EVERY",
        metavar="N",
        help="Read all parameters at the first 8 optimizer steps, then at 2 of every N, and a few at the others; "
        "1: all at every step. Default: 64.",
    ),
    click.option(
        "--stop-on-wrong",
        is_flag=True,
        help="Stop the job at the first wrong step; its verdict is the one on the steps up to there.",
    ),
    click.option(
        "--reference",
        metavar="FILE:FUNCTION",
        help="Compare the first steps with one process: FUNCTION(model, batch) returns (loss_sum, count).",
    ),
    click.option("--timeout", type=float, metavar="S", help="Stop the script after S seconds."),
    click.option(
        "--trace",
        metavar="DIR",
        help="Keep the trace in DIR, for `failuremap diagnose DIR`. Default: a temporary folder, removed afterwards.",
    ),
)
"""How to run the script."""


def make_job(command: tuple[str, ...], nproc: int | None, folder: Path, run_id: str, options: Options) -> Job:
    """Make a job of a command line; it is checked as it is made."""
    on_stdout = options.json_path == "-"
    reference = find_reference(options.reference) if options.reference else None
    return Job(
        command, nproc, options.timeout, folder, run_id, options.steps, options.every, options.stop_on_wrong, on_stdout,
        reference,
    )  # fmt: skip


def check_outputs(options: Options) -> None:
    """Refuse files that can't be written, before the job has cost anything."""
    from failuremap.audit.report.json_ import check_writable

    for path in (options.json_path, options.html_path, options.junit_path, options.sarif_path):
        if path and path != "-":
            check_writable(path)


def show(verdict: Verdict, options: Options) -> int:
    """Write the files asked for and print the page; return the exit code. With `--json -`, stdout is the JSON alone."""
    from failuremap.audit.report import html, json_, junit, sarif, terminal

    # the files first: whoever reads the page may stop before its end
    if options.json_path and options.json_path != "-":
        json_.write(options.json_path, json_.to_json(verdict))
    if options.html_path:
        json_.write(options.html_path, html.html(verdict))
    if options.junit_path:
        json_.write(options.junit_path, junit.junit(verdict))
    if options.sarif_path:
        json_.write(options.sarif_path, sarif.sarif(verdict))
    if options.json_path == "-":
        _print(sys.stdout, lambda: click.echo(json_.to_json(verdict), nl=False))
        _print(sys.stderr, lambda: terminal.print_verdict(verdict, file=sys.stderr))
    else:
        _print(sys.stdout, lambda: terminal.print_verdict(verdict))
    return verdict.exit_code


def _print(stream: TextIO, printed: Callable[[], None]) -> None:
    """Print to a stream; a reader that has stopped says nothing of the job."""
    try:
        printed()
        stream.flush()
    except BrokenPipeError:  # what is still unwritten has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run_command(command: click.Command, arguments: Sequence[str] | None = None, *, quiet: bool = False) -> int:
    """Run a click command whose return value is the exit code; bad usage is one line `error: ...` and code 2.

    A fault of our own is a traceback and code 70: it must not be taken for a verdict.
    """
    try:
        return int(command.main(arguments, standalone_mode=False) or 0)
    except click.NoSuchOption as error:
        advice = "Options of the script go behind it, and one that starts the command behind --."
        return _fail(f"{error.format_message()} {advice}", quiet)
    except click.ClickException as error:
        return _fail(error.format_message(), quiet)
    except FailuremapError as error:
        return _fail(str(error), quiet)
    except click.Abort:
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - Python would exit with 1, which means that the job is wrong
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _fail(f"what was to be written does not fit: {error}. Make room on the disk, or write elsewhere.", quiet)
        else:
            traceback.print_exc()
        return _OUR_FAULT


def _fail(message: str, quiet: bool) -> int:
    is_help = message.startswith("Usage:")  # of a group of commands that was given none
    if not quiet:
        click.echo(message if is_help else f"error: {message}", err=True)
    return _USAGE
