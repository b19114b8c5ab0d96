"""Writes the published schema: `python -m failuremap.audit.report docs/verdict.schema.json [--check]`."""

from __future__ import annotations

from pathlib import Path

import click

from failuremap.audit.report.json_ import schema_text, write


@click.command()
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--check", is_flag=True, help="Write nothing; fail if the file is not current.")
def main(path: Path, check: bool) -> None:
    """Write the JSON Schema of a verdict to PATH."""
    if not check:
        return write(path, schema_text())
    if not path.is_file() or path.read_text(encoding="utf-8") != schema_text():
        raise click.ClickException(f"{path} is not current. Write it:  python -m failuremap.audit.report {path}")
    return None


if __name__ == "__main__":
    main()
