"""The commands of the catalogue: list, show, verify."""

from __future__ import annotations

import textwrap

import click

from failuremap.catalogue.mechanism import STAGES, Mechanism, Stage
from failuremap.catalogue.render import render
from failuremap.catalogue.shelf import mechanism, mechanisms
from failuremap.catalogue.verify import StageResult, verify
from failuremap.errors import InvalidArgument


@click.command("list")
def list_command() -> None:
    """List the faults that have a name, one a line.

    Those marked (scripts) have a broken and a fixed form that run: `failuremap show SLUG --stage broken`.
    """
    width = max(map(len, mechanisms()), default=0)
    for slug, entry in mechanisms().items():
        click.echo(f"{slug:{width}}  {entry.title}{'  (scripts)' if entry.stages else ''}")


@click.command("show")
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


@click.command("verify")
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
