"""The commands that records go in and out by: import, export."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import click

from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.export import FORMATS, Format, export, give_back
from failuremap.catalogue.exchange.importing import Imported, import_files, to_json
from failuremap.catalogue.exchange.intake import read_key
from failuremap.catalogue.exchange.storing import store
from failuremap.catalogue.exchange.tiers import TIERS, Tier
from failuremap.catalogue.records.digest import PUBLISHED_KEY
from failuremap.errors import InvalidArgument

_PATH = click.Path(path_type=Path)


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=_PATH, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print the claims as JSON.")
@click.option("--out", type=_PATH, metavar="DIR", help="Store the records in DIR, if no claim fails.")
def import_command(files: tuple[Path, ...], as_json: bool, out: Path | None) -> int:
    """Check every claim that records make, their scripts run again.

    A FILE is a record in the form failure-map or of this catalogue, the text of a record's page, or a bundle. Each
    claim holds, fails, or cannot be checked. A script is read before it is run: it may use pure modules of the standard
    library only.

    \b
    Examples:
      failuremap import FA-99241.json FA-99246.page.txt
      failuremap import FA-99241.json --out imported --json
    Exit codes: 0 no claim fails · 1 a claim fails · 2 usage
    """
    imported = import_files(files)
    click.echo(to_json(imported) if as_json else "\n".join(map(_table, imported)), nl=not as_json)
    holds = all(one.holds for one in imported)
    if out and holds:
        store(imported, out)
    elif out:
        click.echo(f"nothing was stored in {out}: a claim fails", err=True)
    return int(not holds)


@click.command("export")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice([*FORMATS, "all"]),
    default=("all",),
    show_default=True,
    help="What to write; may be given more than once.",
)
@click.option("--tier", type=click.Choice(TIERS), default="open", show_default=True, help="Who may read it.")
@click.option("--out", type=_PATH, required=True, metavar="DIR", help="The folder to write; it is there whole or not.")
@click.option("--key", type=_PATH, metavar="FILE", help="Key of the salts. Default: the published one.")
@click.option("--imported", type=_PATH, metavar="DIR", help="Give back what `failuremap import --out DIR` stored.")
def export_command(
    names: tuple[str, ...], formats: tuple[Format, ...], tier: Tier, out: Path, key: Path | None, imported: Path | None
) -> int:
    """Write the cases as a data set: JSON lines, Parquet, Croissant, a card, bundles.

    NAME is that of a fault, or the id or alias of a case. All are written where none is named.

    \b
    Examples:
      failuremap export --out open-tier
      failuremap export --tier member --format jsonl --format bundles --out members partials-averaged
      failuremap export --format failure-map --imported imported --out given-back
    """
    if imported and (names or key or tier != "open" or formats != ("failure-map",)):
        raise InvalidArgument(
            "--imported gives foreign records back: with --format failure-map, without NAME, --key or --tier."
        )
    if imported:
        files = give_back(out, imported)
        others = sorted(path.stem for path in imported.glob("*.json") if path.name not in files)
        if others:
            click.echo(f"not given back, being of another form: {', '.join(others)}", err=True)
    else:
        cases = released_cases(names, read_key(key) if key else PUBLISHED_KEY)
        files = export(out, cases, tier, FORMATS if "all" in formats else formats)
    noun = "file" if len(files) == 1 else "files"
    click.echo(f"{len(files)} {noun} in {out}, {sum(map(len, files.values()))} bytes")
    return 0


def _table(one: Imported) -> str:
    """Lay out the claims of one file: what each is worth, what it is, why."""
    width = max(len(claim.claim) for claim in one.claims)
    columns = shutil.get_terminal_size().columns
    lines = [f"{one.record}" + (f"  ({one.file})" if one.file else "")]
    for claim in one.claims:
        start = f"  {claim.result:<18} {claim.claim:<{width}}  "
        room = max(columns - len(start), 40)
        rows = textwrap.wrap(claim.reason, room) or [""]
        lines += [start + rows[0], *(" " * len(start) + row for row in rows[1:])]
    return "\n".join(map(_printable, [*lines, f"  {_summary(one)}"]))


def _printable(line: str) -> str:
    """Escape what a terminal would follow: a record's text is a stranger's."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line)


def _summary(one: Imported) -> str:
    """Count the claims by what they are worth, and name those that fail."""
    failing = [claim.claim for claim in one.claims if claim.result == "fails"]
    unchecked = sum(claim.result == "cannot be checked" for claim in one.claims)
    held = len(one.claims) - len(failing) - unchecked
    said = f"{len(failing)} fail: {', '.join(failing)}" if failing else "none fails"
    return f"{len(one.claims)} claims: {held} hold, {unchecked} cannot be checked, {said}"
