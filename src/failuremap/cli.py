"""The command line: parse, call, print. Everything it does is a function of the library."""

from __future__ import annotations

import os
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any

import click

from failuremap import __version__
from failuremap.audit import session
from failuremap.audit.command_line import (
    COMMAND_SETTINGS,
    Options,
    check_outputs,
    judging_options,
    make_job,
    run_command,
    running_options,
    show,
)
from failuremap.audit.launch.folder import choose_folder
from failuremap.catalogue.mechanism import STAGES, Mechanism, Stage
from failuremap.catalogue.render import render
from failuremap.catalogue.shelf import mechanism, mechanisms
from failuremap.catalogue.verify import StageResult, verify
from failuremap.errors import InvalidArgument

_NOTHING_ASKED = 2  # as click has it; 0 would read as a right job


class _CommandLine(click.Group):
    """A group that ends the process with what a command returns, and says bad usage in one line."""

    def __call__(self, *_args: Any, **_options: Any) -> Any:
        sys.exit(run_command(self))


@click.group(cls=_CommandLine, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="failuremap")
@click.pass_context
def main(context: click.Context) -> int:
    """See what a training job really does with its gradients.

    \b
      failuremap audit --nproc 2 -- train.py --epochs 1     run a script and judge it
      failuremap show replica-means-ignore-counts           what a named fault is, and its repair
    """
    if context.invoked_subcommand is not None:
        return 0
    click.echo(context.get_help(), err=True)
    return _NOTHING_ASKED


@main.command("audit", context_settings=COMMAND_SETTINGS)
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


@main.command("diagnose")
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
    return show(diagnose(trace_dir, unit=options.unit, promise=options.promise), options)


@main.command("list")
def list_command() -> None:
    """List the faults that have a name, one a line.

    Those marked (scripts) have a broken and a fixed form that run: `failuremap show SLUG --stage broken`.
    """
    width = max(map(len, mechanisms()), default=0)
    for slug, entry in mechanisms().items():
        click.echo(f"{slug:{width}}  {entry.title}{'  (scripts)' if entry.stages else ''}")


@main.command("show")
@click.argument("slug")
@click.option("--stage", type=click.Choice(STAGES), help="Print this stage as a script that runs.")
@click.option("-N", "n", type=click.IntRange(1, 5), default=1, show_default=True, help="Which variant of the inputs.")
def show_command(slug: str, stage: Stage | None, n: int) -> None:
    """Show a named fault: what goes wrong, why, and its repair; or one of its scripts.

    \b
    Examples:
      failuremap show replica-means-ignore-counts
      failuremap show replica-means-ignore-counts --stage broken -N 2 | python -
    """
    entry = mechanism(slug)
    if stage and not entry.stages:
        raise InvalidArgument(f"slug={slug!r} has no script for --stage {stage}. {_with_scripts()}")
    click.echo(render(entry, stage, n) if stage else _described(entry), nl=stage is None)


@main.command("verify")
@click.argument("slugs", nargs=-1, metavar="[SLUG]...")
def verify_command(slugs: tuple[str, ...]) -> int:
    """Run the scripts of named faults: broken and attempt must fail their checks, fixed must pass them.

    \b
    Examples:
      failuremap verify                                       all of them
      failuremap verify replica-means-ignore-counts
    """
    results = verify(slugs or None, _print_result)
    if not results:
        raise InvalidArgument(f"slugs={list(slugs)}: no scripts to run. {_with_scripts()}")
    click.echo(_summary(slugs or tuple(mechanisms()), results))
    return int(not all(result.holds for result in results))


def _print_result(result: StageResult) -> None:
    """Print what one script showed, against what it should show."""
    failed = len(result.failed_checks)
    seen = f"fails {failed} of {result.check_count} checks" if failed else f"passes all {result.check_count} checks"
    mark = "ok    " if result.holds else "FAILED"
    click.echo(f"{mark} {result.slug} {result.stage} N={result.variant}  {result.problem or f'{seen}, as it should'}")


def _summary(slugs: tuple[str, ...], results: list[StageResult]) -> str:
    """Say how much was run, how much of it was not as it should be, and what has nothing to run."""
    verified = {result.slug for result in results}
    wrong = sum(not result.holds for result in results)
    held = f"{wrong} not as they should be" if wrong else "all as they should be"
    without = len(set(slugs) - verified)
    rest = f"; {without} {'entries have' if without > 1 else 'entry has'} no scripts" if without else ""
    return f"{_counted(len(results), 'script')} of {_counted(len(verified), 'mechanism')} run, {held}{rest}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _with_scripts() -> str:
    """Name the entries that have scripts."""
    return f"Entries with scripts: {', '.join(slug for slug, entry in mechanisms().items() if entry.stages)}."


def _described(entry: Mechanism) -> str:
    """Lay out what a fault is, label before text; its scripts are named where it has them."""
    parts = {
        "what": entry.abstract,
        "contract": entry.contract,
        "why": entry.root_cause,
        "repair": entry.repair,
        "separated": entry.separated_by,
        "see": " ".join(entry.references),
        "scripts": f"failuremap show {entry.slug} --stage broken|attempt|fixed [-N 1..5]" if entry.stages else "",
    }
    lines = [f"{entry.title}  ({entry.slug})"]
    for label, text in parts.items():
        indent = f"  {label:<11}", " " * 13
        lines += textwrap.wrap(text, 110, initial_indent=indent[0], subsequent_indent=indent[1])
    return "\n".join(lines)


def _refuse_inside_launcher(nproc: int | None) -> None:
    """Refuse to audit each rank of a launcher apart: it would judge every one of them as a job of its own."""
    world_size = os.environ.get("WORLD_SIZE", "1")
    if nproc is None and "LOCAL_RANK" in os.environ and world_size != "1":
        raise InvalidArgument(
            f"LOCAL_RANK={os.environ['LOCAL_RANK']!r} with WORLD_SIZE={world_size!r}: a launcher is at work already. "
            "Let it start the audit:  torchrun ... -m failuremap.audit train.py"
        )
