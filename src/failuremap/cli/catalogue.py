"""The commands that read the catalogue: list and show."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from failuremap.catalogue import live
from failuremap.catalogue.mechanism import STAGES, Mechanism, Stage
from failuremap.catalogue.render import render
from failuremap.catalogue.shelf import case_id, case_of, mechanisms
from failuremap.errors import InvalidArgument

_LABEL_WIDTH = 15


@click.command("list")
@click.option("--group", help="Only the faults of this evaluation group.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects.")
def list_command(group: str | None, as_json: bool) -> None:
    """List the faults that have a name, one a line: name, number, title.

    Those marked (scripts) have a broken and a fixed form that run: `failuremap run NAME`.

    \b
    Examples:
      failuremap list
      failuremap list --group counts-across-ranks --json
    """
    entries = _in_group(group) if group is not None else list(mechanisms().values())
    if as_json:
        click.echo(json.dumps([_summary(entry) for entry in entries], indent=2, ensure_ascii=False))
        return
    width = max((len(entry.slug) for entry in entries), default=0)
    for entry in entries:
        number = f"FM-{entry.number:03d}" if entry.number else ""
        click.echo(f"{entry.slug:{width}}  {number:6}  {entry.title}{'  (scripts)' if entry.stages else ''}")


@click.command("show")
@click.argument("name")
@click.option("--stage", type=click.Choice(STAGES), help="Print this stage as a script that runs.")
@click.option("--live", "as_live", is_flag=True, help="Print the training script in which it happens for real.")
@click.option("--json", "as_json", is_flag=True, help="Print the published record of the case.")
@click.option("-N", "n", type=click.IntRange(1, 5), help="Which variant of the inputs.  [default: 1]")
def show_command(name: str, stage: Stage | None, as_live: bool, as_json: bool, n: int | None) -> None:
    """Show a named fault: what goes wrong, why, and its repair; or one of its scripts, or its record.

    NAME is that of a fault, or the id or alias of a case, which says N.

    \b
    Examples:
      failuremap show replica-means-ignore-counts
      failuremap show replica-means-ignore-counts --stage broken -N 2 | python -
      failuremap show FM-001-2 --json
      failuremap show partials-averaged --live > train.py
    """
    if sum((stage is not None, as_live, as_json)) > 1:
        raise InvalidArgument("--stage, --live and --json each print something else; give one of them.")
    entry, variant = chosen_case(name, n)
    if as_live:
        click.echo(_live_script(entry), nl=False)
    elif stage is None and not as_json:
        click.echo(_described(entry))
    elif not entry.stages:
        raise InvalidArgument(f"slug={entry.slug!r} has no script for {_flag(stage)}. {with_scripts()}")
    else:
        click.echo(render(entry, stage, variant) if stage else _record(entry, variant), nl=False)


def chosen_case(name: str, n: int | None) -> tuple[Mechanism, int]:
    """Return the mechanism and the variant that a name and -N say; an alias is that of all variants where -N is given.

    Raises:
        InvalidArgument: They contradict each other, or the name is unknown.
    """
    entry, variant = case_of(name)
    if variant and n and variant != n and name.upper() != entry.alias:
        raise InvalidArgument(f"-N {n} with {name!r}, which is the case of N={variant}; give one of them.")
    return entry, n or variant or 1


def with_scripts() -> str:
    """Name the entries that have scripts."""
    return f"Entries with scripts: {', '.join(slug for slug, entry in mechanisms().items() if entry.stages)}."


def _in_group(group: str) -> list[Mechanism]:
    entries = [entry for entry in mechanisms().values() if entry.group == group]
    if not entries:
        groups = sorted({entry.group for entry in mechanisms().values() if entry.group})
        raise InvalidArgument(f"--group={group!r} is no evaluation group; there are: {', '.join(groups)}.")
    return entries


def _summary(entry: Mechanism) -> dict[str, Any]:
    return {
        "number": entry.number,
        "slug": entry.slug,
        "title": entry.title,
        "group": entry.group,
        "abstract": entry.abstract,
        "alias": entry.alias,
        "scripts": entry.stages is not None,
        "live": _live_path(entry).exists(),
    }


def _record(entry: Mechanism, variant: int) -> str:
    from failuremap.catalogue.exchange.cases import released_cases

    (case,) = released_cases([case_id(entry, variant)])
    return case.to_open().to_json()


def _live_script(entry: Mechanism) -> str:
    path = _live_path(entry)
    if not path.exists():
        reason = entry.audit_blind or "it has not been made to happen in PyTorch on CPU"
        raise InvalidArgument(f"slug={entry.slug!r} has no script for --live: {reason}.")
    return path.read_text(encoding="utf-8")


def _live_path(entry: Mechanism) -> Path:
    return Path(live.__path__[0]) / f"{entry.slug.replace('-', '_')}.py"


def _flag(stage: Stage | None) -> str:
    return f"--stage {stage}" if stage else "--json"


def _described(entry: Mechanism) -> str:
    """Lay out what a fault is, label before text; what an entry doesn't have is left out."""
    parts = {
        "what": entry.abstract,
        "contract": entry.contract,
        "domain": entry.domain,
        "clauses": [f"{clause.id}: {clause.text}" for clause in entry.clauses],
        "why": entry.root_cause,
        "failure": entry.failure,
        "vain repair": entry.failed_approach,
        "repair": entry.repair,
        "matters": entry.relevance,
        "limits": entry.limitations,
        "audit sees": entry.audit_sees,
        "audit blind": entry.audit_blind,
        "separated": entry.separated_by,
        "related": ", ".join(entry.related),
        "see": entry.references,
        "scripts": f"failuremap run {entry.slug} --stage broken|attempt|fixed [-N 1..5]" if entry.stages else "",
        "live": f"failuremap show {entry.slug} --live" if _live_path(entry).exists() else "",
    }
    lines = [f"{entry.title}  ({_names(entry)})"]
    for label, text in parts.items():
        lines += _labelled(label, [text] if isinstance(text, str) else text)
    return "\n".join(lines)


def _names(entry: Mechanism) -> str:
    numbers = [f"{case_id(entry, 1)[:-1]}1..5"] if entry.number and entry.stages else []
    return ", ".join([entry.slug, *numbers, *([entry.group] if entry.group else [])])


def _labelled(label: str, texts: Iterable[str]) -> list[str]:
    """Wrap texts, one below the other, behind a label."""
    lines: list[str] = []
    for text in texts:
        first = " " * _LABEL_WIDTH if lines else f"  {label:<{_LABEL_WIDTH - 2}}"
        lines += textwrap.wrap(
            text,
            110,
            initial_indent=first,
            subsequent_indent=" " * _LABEL_WIDTH,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines
