"""The commands that run the catalogue's scripts: run and verify."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime

import click

from failuremap.audit.report.json_ import check_writable, write
from failuremap.catalogue.mechanism import STAGES, Stage
from failuremap.catalogue.render import render
from failuremap.catalogue.run import Run, run
from failuremap.catalogue.shelf import case_id, case_of, mechanism, mechanisms
from failuremap.catalogue.verify import StageResult, jobs_of, record, verify
from failuremap.cli.catalogue import chosen_case, with_scripts
from failuremap.errors import InvalidArgument

_STOPPED = 4  # as in an audit: the script failed
_COLUMN = 40

OnResult = Callable[[StageResult], None]


@click.command("run")
@click.argument("name")
@click.option("--stage", type=click.Choice(STAGES), default="broken", show_default=True, help="Which form to run.")
@click.option("-N", "n", type=click.IntRange(1, 5), help="Which variant of the inputs.  [default: 1]")
@click.option("--json", "as_json", is_flag=True, help="Print the run as one JSON object.")
def run_script_command(name: str, stage: Stage, n: int | None, as_json: bool) -> int:
    """Run one script of a named fault in a fresh interpreter, and show what its checks observed.

    NAME is that of a fault, or the id or alias of a case, which says N.

    \b
    Examples:
      failuremap run replica-means-ignore-counts
      failuremap run FM-001-3 --stage fixed
      failuremap run FA-99241 --stage attempt --json

    Exit codes: that of the script, 0 all checks pass · 1 a check fails · 2 usage · 4 the script failed
    """
    entry, variant = chosen_case(name, n)
    if not entry.stages:
        raise InvalidArgument(f"slug={entry.slug!r} has no script for --stage {stage}. {with_scripts()}")
    seen = run(render(entry, stage, variant))
    if as_json:
        click.echo(json.dumps({"slug": entry.slug, "stage": stage, "variant": variant, **asdict(seen)}, indent=2))
    else:
        click.echo(f"{entry.slug} {stage} N={variant}\n" + "\n".join(_table(seen)))
    return seen.exit_code if seen.exit_code in (0, 1) and seen.observations else _STOPPED


@click.command("verify")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--record", "as_record", is_flag=True, help="Record what the scripts give now, where all of it holds.")
@click.option(
    "--attest", "attest_path", metavar="FILE", help="Write who ran what, when and where, as JSON lines; - is stdout."
)
def verify_command(names: tuple[str, ...], as_record: bool, attest_path: str | None) -> int:
    """Run the scripts of named faults: broken and attempt must fail their checks, fixed must pass them.

    What they print must be what was recorded. NAME is that of a fault, or the id or alias of a case.

    \b
    Examples:
      failuremap verify                                       all of them
      failuremap verify replica-means-ignore-counts FM-003-2
      failuremap verify replica-means-ignore-counts --record  after a change to its scripts
    """
    if as_record:  # recordings are of a whole mechanism
        names = tuple(case_of(name)[0].slug for name in names)
    script_count = len(list(jobs_of(names or None)))
    if not script_count:
        raise InvalidArgument(f"names={list(names)}: no scripts to run. {with_scripts()}")
    alone = attest_path == "-"  # the JSON lines are all that stdout gets, as in an audit
    if attest_path and not alone:
        check_writable(attest_path)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with _progress(script_count, err=alone) as on_result:
        results = verify(names or None, on_result, against_records=not as_record)
    if as_record:
        click.echo(f"recorded: {', '.join(record(results)) or 'nothing'}", err=alone)
    if alone:
        click.echo(_attested(results, started), nl=False)
    elif attest_path:
        write(attest_path, _attested(results, started))
    click.echo(_summary(names or tuple(mechanisms()), results), err=alone)
    return int(not all(result.holds for result in results))


@contextlib.contextmanager
def _progress(script_count: int, *, err: bool) -> Iterator[OnResult]:
    """Show a bar on a terminal, with a line for what fails; else a line for each script."""
    if err or not sys.stdout.isatty():
        yield lambda result: click.echo(_line(result), err=err)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("scripts", total=script_count)

        def advance(result: StageResult) -> None:
            if not result.holds:
                bar.console.print(_line(result), markup=False, highlight=False, soft_wrap=True)
            bar.advance(task)

        yield advance


def _line(result: StageResult) -> str:
    """Say what one script showed, against what it should show."""
    failed = len(result.failed_checks)
    seen = f"fails {failed} of {result.check_count} checks" if failed else f"passes all {result.check_count} checks"
    mark = "ok    " if result.holds else "FAILED"
    return f"{mark} {result.slug} {result.stage} N={result.variant}  {result.problem or f'{seen}, as it should'}"


def _summary(names: tuple[str, ...], results: list[StageResult]) -> str:
    """Say how much was run, how much of it was not as it should be, and what has nothing to run."""
    verified = {result.slug for result in results}
    wrong = sum(not result.holds for result in results)
    held = f"{wrong} not as they should be" if wrong else "all as they should be"
    without = len({case_of(name)[0].slug for name in names} - verified)
    rest = f"; {without} {'entries have' if without > 1 else 'entry has'} no scripts" if without else ""
    return f"{_counted(len(results), 'script')} of {_counted(len(verified), 'mechanism')} run, {held}{rest}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _attested(results: Iterable[StageResult], started: str) -> str:
    """Return a JSON line for each case of which all stages were run and hold."""
    from failuremap.catalogue.exchange.cases import released_cases
    from failuremap.catalogue.records.attest import Environment, statement

    durations: dict[str, dict[str, float]] = {}
    for result in results:
        if result.holds:
            name = case_id(mechanism(result.slug), result.variant)
            durations.setdefault(name, {})[result.stage] = result.duration_s
    whole = [name for name, stages in durations.items() if len(stages) == len(STAGES)]
    environment = Environment.here(started)
    cases = released_cases(whole) if whole else []
    return "".join(json.dumps(statement(case, environment, durations[case.id])) + "\n" for case in cases)


def _table(seen: Run) -> list[str]:
    """Lay out what each check observed, and how the script ended."""
    rows = [("check", "actual", "expected", "outcome")]
    rows += [(one.check, _short(one.actual), _short(one.expected), _outcome(one.passed)) for one in seen.observations]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*map(str.ljust, row, widths), row[3]]) for row in rows if seen.observations]
    if seen.stderr.strip():
        lines.append(seen.stderr.strip())
    return [*lines, seen.stopped or f"exit code {seen.exit_code}"]


def _outcome(passed: bool) -> str:
    return "passed" if passed else "FAILED"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _COLUMN else text[: _COLUMN - 3] + "..."
