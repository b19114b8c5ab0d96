"""The command that writes the catalogue as pages: site build."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

_PATH = click.Path(path_type=Path)
_HOME = "http://localhost:8000/"


@click.group("site")
def site_command() -> None:
    """Write the catalogue as pages."""


@site_command.command("build")
@click.argument("folder", type=_PATH, metavar="DIR")
@click.option(
    "--tier", type=click.Choice(["open", "member"]), default="open", show_default=True, help="Who may read it."
)
@click.option("--address", default=_HOME, show_default=True, metavar="URL", help="Where it will stand.")
@click.option("--pyodide", type=_PATH, metavar="FOLDER", help="Pyodide's files: scripts then run in the page.")
def build_command(folder: Path, tier: Literal["open", "member"], address: str, pyodide: Path | None) -> int:
    """Write the site into DIR: the pages, the records as JSON, the bundles, feeds and a search.

    It works from the disk, without JavaScript, and asks nothing elsewhere. DIR is new, empty, or an earlier build that
    nobody changed; it is there whole or as it was. The address stands in the feed and the sitemap alone.

    \b
    Examples:
      failuremap site build public
      failuremap site build public --address https://example.org/failures/
    """
    from failuremap.site import build

    built = build(folder, tier=tier, address=address, pyodide=pyodide)
    click.echo(f"{built.page_count} pages, {built.file_count} files in {folder}, {built.byte_count} bytes")
    return 0
