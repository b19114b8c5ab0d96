"""The catalogue -> a folder of pages and files, there whole or not at all, of the same bytes on every day."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from failuremap.catalogue.exchange.archive import SUMS, sums_text
from failuremap.catalogue.exchange.folder import check_folder, write_folder
from failuremap.catalogue.exchange.tiers import Tier
from failuremap.errors import InvalidArgument
from failuremap.site import pages as kinds
from failuremap.site.content import HOME, Content, catalogue_cases, content_of
from failuremap.site.frame import ASSETS, Frame

Files = Iterator[tuple[str, str | bytes]]
Writer = Callable[[Frame], Files]

_OPTION = "folder"


@dataclass(frozen=True)
class Built:
    """What a build wrote.

    Attributes:
        folder: Where.
        page_count: How many HTML pages.
        file_count: How many files, the pages among them.
        byte_count: Of all files.
    """

    folder: Path
    page_count: int
    file_count: int
    byte_count: int


def build(folder: Path, *, tier: Tier = "open", pyodide: Path | None = None, address: str = HOME) -> Built:
    """Writes the site into a folder, which is new, empty, or an earlier build that nobody changed.

    Args:
        folder: Where; it is there whole or as it was.
        tier: Who may read the pages: `open` for all, `member` with the repairs.
        pyodide: A folder with pyodide, for scripts that run in the page.
        address: Where the site will stand; the feed and the sitemap name it.

    Raises:
        InvalidArgument: The folder holds something else, or can't be written; the address is none of a folder.
    """
    check_address(address)
    check_folder(folder, _OPTION)
    files = site_files(content_of(catalogue_cases(), tier, address, pyodide))
    write_folder(folder, files, _OPTION)
    pages = sum(name.endswith(".html") for name in files)
    return Built(folder, pages, len(files), sum(map(len, files.values())))


def check_address(address: str) -> None:
    """Refuses what is no address of a folder on a server.

    Raises:
        InvalidArgument: It is none.
    """
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.netloc or not address.endswith("/") or parts.query:
        raise InvalidArgument(
            f"address={address!r}: expected where the site will stand, with a slash at its end, such as {HOME!r}."
        )


def site_files(content: Content) -> dict[str, bytes]:
    """Returns the files of a site: path -> bytes, `SHA256SUMS` among them."""
    frame = Frame(content)
    written = {path: _bytes(made) for writer in writers() for path, made in writer(frame)}
    assets = {f"assets/{path.name}": path.read_bytes() for path in sorted(ASSETS.iterdir()) if path.is_file()}
    files = dict(sorted({**written, **assets}.items()))
    return {**files, SUMS: sums_text(files, content.canary).encode()}


def _bytes(made: str | bytes) -> bytes:
    return made.encode() if isinstance(made, str) else made


@cache
def writers() -> list[Writer]:
    """Finds who writes the site: the function `pages` of each file in `pages/`, which yields path and content."""
    names = sorted(module.name for module in pkgutil.iter_modules(kinds.__path__))
    return [importlib.import_module(f"{kinds.__name__}.{name}").pages for name in names]
