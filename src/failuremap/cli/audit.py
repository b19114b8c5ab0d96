"""`failuremap audit` and `failuremap diagnose`."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import click

from failuremap.audit import session
from failuremap.audit.command_line import (
    COMMAND_SETTINGS,
    Options,
    check_outputs,
    judging_options,
    make_job,
    running_options,
    show,
)
from failuremap.audit.launch.folder import choose_folder
from failuremap.audit.probes import sizes
from failuremap.errors import InvalidArgument


@click.command("audit", context_settings=COMMAND_SETTINGS)
@click.option("--nproc", type=int, metavar="N", help="Start N ranks here. Default: start the command once, as it is.")
@running_options
@judging_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def audit_command(command: tuple[str, ...], nproc: int | None, **given: Any) -> int:
    """Run a training script unchanged and say what one unit weighs in its updates.

    COMMAND is `train.py ARGS`, `-m package.train ARGS`, or a launcher's whole command line. It follows `--`.

    \b
    Examples:
      failuremap audit --nproc 2 -- train.py --epochs 1
      failuremap audit -- -m package.train                     one process (it may spawn its own)
      failuremap audit --trace run1 -- torchrun --nproc-per-node 2 train.py
      failuremap audit --nproc 2 --timeout 600 --json - -- train.py > verdict.json

    \b
    With --json - the script's stdout goes to stderr, so that stdout is the JSON alone.
    Exit codes: 0 right · 1 wrong · 2 usage · 3 cannot tell or not measured · 4 the script failed
    """
    options, run_id = Options(**given), uuid.uuid4().hex[:16]
    _refuse_inside_launcher(nproc)
    folder = choose_folder(options.trace, run_id)
    job = make_job(command, nproc, folder.path, run_id, options)
    check_outputs(options)
    with folder.claimed(run_id):
        verdict = session.audit(job, options.unit, options.promise)
    return show(verdict, options)


@click.command("diagnose")
@judging_options
@click.argument("trace_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
def diagnose_command(trace_dir: Path, **given: Any) -> int:
    """Judge a trace that an audit has kept, without the job.

    \b
    Examples:
      failuremap audit --nproc 2 --trace run1 -- train.py
      failuremap diagnose run1 --promise sum --html verdict.html
    """
    from failuremap.audit import diagnose

    options = Options(**given)
    check_outputs(options)
    verdict = diagnose(trace_dir, unit=options.unit, promise=options.promise)
    return show(session.with_runs_below(verdict, trace_dir), options)


@click.command("probe")
@click.option("--nproc", type=int, required=True, metavar="N", help="Ranks.")
@click.option("--micro-batches", type=int, default=1, metavar="M", help="Micro-batches of a window.", show_default=True)
@click.option("--at-least", type=int, default=2, metavar="S", help="The smallest size.", show_default=True)
def probe_command(nproc: int, micro_batches: int, at_least: int) -> int:
    """Print batch sizes for a test run in which each ratio has one explanation: a line a rank.

    All are prime and different, so that a weight of 11/5 names the two batches it lies between.

    \b
    Examples:
      failuremap probe --nproc 4 --micro-batches 3
    """
    for row in sizes(nproc, micro_batches, at_least=at_least):
        click.echo(" ".join(map(str, row)))
    return 0


def _refuse_inside_launcher(nproc: int | None) -> None:
    """Refuse to audit each rank of a launcher apart: it would judge every one of them as a job of its own."""
    world_size = os.environ.get("WORLD_SIZE", "1")
    if nproc is None and "LOCAL_RANK" in os.environ and world_size != "1":
        raise InvalidArgument(
            f"LOCAL_RANK={os.environ['LOCAL_RANK']!r} with WORLD_SIZE={world_size!r}: a launcher is at work already. "
            "Let it start the audit:  torchrun ... -m failuremap.audit train.py"
        )
