"""Write the generated pages of docs/; with --check, fail if one of them is out of date.

python docs/generate.py            write
python docs/generate.py --check    compare, print what differs, exit 1
"""

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from failuremap.audit.report.json_ import schema_text
from failuremap.catalogue.records.schema import schema_text as record_schema_text
from failuremap.cli import main as command_line
from failuremap.score.report import schema_text as report_schema_text
from failuremap.score.verdict import schema_text as score_schema_text

DOCS = Path(__file__).parent
WIDTH = 100


def command_page() -> str:
    """Return the page of all commands: the --help text of each."""
    parts = ["# The commands", "Written by `make docs` from the help texts."]
    context = _context_of(command_line, "failuremap", None)
    return "\n\n".join([*parts, _help_of(command_line, context), *_below(command_line, context)]) + "\n"


def _below(group: click.Group, context: click.Context) -> Iterator[str]:
    """Yield the heading and the help of each command of a group, and of those below it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = _context_of(command, name, context)
        yield from (f"## {inner.command_path}", _help_of(command, inner))
        if isinstance(command, click.Group):
            yield from _below(command, inner)


def _context_of(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    return click.Context(command, parent=parent, info_name=name, **settings)


def _help_of(command: click.Command, context: click.Context) -> str:
    lines = [line.rstrip() for line in command.get_help(context).splitlines()]
    return "\n".join(["```text", *lines, "```"])


PAGES = {
    "verdict.schema.json": schema_text,
    "record.schema.json": record_schema_text,
    "score-verdict.schema.json": score_schema_text,
    "score-report.schema.json": report_schema_text,
    "commands.md": command_page,
}


def stale_pages(folder: Path) -> dict[str, str]:
    """Return how each generated page in a folder differs from what would be written now, if it does, by its name."""
    compared = {name: _difference(folder / name, write()) for name, write in PAGES.items()}
    return {name: difference for name, difference in compared.items() if difference}


def _difference(path: Path, text: str) -> str:
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = (found.splitlines(keepends=True), text.splitlines(keepends=True))
    return "".join(difflib.unified_diff(*lines, path.name, "now", n=0))


def main() -> int:
    """Write the pages, or check them; return the exit code."""
    if "--check" not in sys.argv[1:]:
        for name, write in PAGES.items():
            (DOCS / name).write_text(write(), encoding="utf-8")
        return 0
    stale = stale_pages(DOCS)
    for name, difference in stale.items():
        print(f"docs/{name} is out of date: run make docs\n{difference}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
