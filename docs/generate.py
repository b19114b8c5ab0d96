"""Write the generated pages of docs/; with --check, fail if one of them is out of date.

python docs/generate.py            write
python docs/generate.py --check    compare, name what differs, exit 1
"""

import json
import sys
from pathlib import Path

import click

from failuremap.audit.model import Verdict
from failuremap.cli import main as command_line

DOCS = Path(__file__).parent


def verdict_schema() -> str:
    """Return the JSON schema of what `failuremap audit --json` writes."""
    schema = Verdict.model_json_schema(mode="serialization")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def command_page() -> str:
    """Return the page of all commands: the --help text of each."""
    parts = ["# The commands", "Written by `make docs` from the help texts."]
    context = click.Context(command_line, info_name="failuremap", terminal_width=100, max_content_width=100)
    parts += [_help_of(command_line, context)]
    for name in command_line.list_commands(context):
        command = command_line.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name, terminal_width=100, max_content_width=100)
        parts += [f"## failuremap {name}", _help_of(command, inner)]
    return "\n\n".join(parts) + "\n"


def _help_of(command: click.Command, context: click.Context) -> str:
    lines = [line.rstrip() for line in command.get_help(context).splitlines()]
    return "\n".join(["```text", *lines, "```"])


PAGES = {"verdict.schema.json": verdict_schema, "commands.md": command_page}


def stale_pages(folder: Path) -> list[str]:
    """Return the names of the generated pages in a folder that differ from what would be written now."""
    return [name for name, write in PAGES.items() if not _same(folder / name, write())]


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def main() -> int:
    """Write the pages, or check them; return the exit code."""
    if "--check" not in sys.argv[1:]:
        for name, write in PAGES.items():
            (DOCS / name).write_text(write(), encoding="utf-8")
        return 0
    stale = stale_pages(DOCS)
    for name in stale:
        print(f"docs/{name} is out of date: run make docs")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
