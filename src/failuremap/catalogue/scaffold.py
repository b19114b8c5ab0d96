"""A name -> the two files of a new mechanism, to be filled in:  make new-mechanism NAME=the-wrong-pattern"""

from __future__ import annotations

import keyword
import re
import string
import sys
from datetime import UTC, datetime
from pathlib import Path

from failuremap.catalogue.shelf import mechanisms
from failuremap.errors import FailuremapError, InvalidArgument

_HERE = Path(__file__).parent
_NEXT = """written: {mechanism}
written: {live}
next:    fill in both, then  failuremap verify {slug} --record  and  make test
"""


def scaffold(slug: str, folder: Path = _HERE) -> tuple[Path, Path]:
    """Writes `mechanisms/NAME.py` and `live/NAME.py`, under the next free number. Returns their paths.

    Args:
        slug: The mechanism's name, that of the wrong pattern: words with hyphens.
        folder: The catalogue's folder.

    Raises:
        InvalidArgument: The name is none, or is taken.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", slug) or keyword.iskeyword(slug) or len(slug) > 60:
        raise InvalidArgument(
            f"NAME={slug!r} is no name of a mechanism; expected the wrong pattern in lower case, its words joined by "
            "hyphens:  make new-mechanism NAME=counts-of-padding"
        )
    module = slug.replace("-", "_")
    paths = folder / "mechanisms" / f"{module}.py", folder / "live" / f"{module}.py"
    taken = [path.name for path in paths if path.exists()]
    if slug in mechanisms() or taken:
        raise InvalidArgument(f"NAME={slug!r} is taken; see  failuremap show {slug}")
    number = 1 + max(entry.number for entry in mechanisms().values())
    title, today = slug.replace("-", " ").capitalize(), datetime.now(UTC).date()
    words = {"slug": slug, "module": module, "number": number, "title": title, "today": today}
    for path, name in zip(paths, ("mechanism.txt", "live.txt"), strict=True):
        template = string.Template((_HERE / "templates" / name).read_text(encoding="utf-8"))
        path.write_text(template.substitute(words), encoding="utf-8")
    return paths


def main(arguments: list[str]) -> int:
    """Writes the files of the mechanism that is named; returns the exit code."""
    try:
        mechanism, live = scaffold(arguments[0] if arguments else "")
    except FailuremapError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(_NEXT.format(mechanism=mechanism, live=live, slug=arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
