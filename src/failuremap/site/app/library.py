"""What the site shows, in memory: the files of the open and of the member build, and the records of both."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.tiers import Tier
from failuremap.catalogue.records.model import Case
from failuremap.site.app.settings import Settings
from failuremap.site.build import site_files
from failuremap.site.content import Content, catalogue_cases, content_of

_ASSETS = Path(__file__).parent / "assets"
_INDEX = "index.html"
_TYPES = {
    ".atom": "application/atom+xml", ".csv": "text/csv", ".html": "text/html", ".js": "text/javascript",
    ".json": "application/json", ".mjs": "text/javascript", ".py": "text/x-python", ".wasm": "application/wasm",
    ".xml": "application/xml", ".zip": "application/zip",
}  # fmt: skip


@dataclass(frozen=True)
class Document:
    """Bytes to be sent.

    Attributes:
        body: The bytes.
        media_type: What they are.
        etag: The name of exactly these bytes.
    """

    body: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        """A digest of the bytes, as the header has it."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


@dataclass(frozen=True)
class Library:
    """One tier, ready to be sent.

    Attributes:
        content: What the tier holds.
        documents: Address of a file or folder, without the first slash -> what is there.
        cases: Id of a case -> its record in the form of the tier.
    """

    content: Content
    documents: Mapping[str, Document]
    cases: Mapping[str, Case]


@dataclass(frozen=True)
class Libraries:
    """Both tiers that are shown; the sealed one is in no memory of the serving process."""

    open: Library
    member: Library


@dataclass(frozen=True)
class Site:
    """What all requests share: what the operator decided, and what there is to show."""

    settings: Settings
    libraries: Libraries


def libraries(address: str, pyodide: Path | None = None, only: Sequence[str] = ()) -> Libraries:
    """Builds both tiers of the site that stands at this address.

    Args:
        address: Where, with a slash at the end.
        pyodide: A folder with pyodide, for scripts that run in the page.
        only: The mechanisms to show, by slug; all where none is named.
    """
    cases = released_cases(only) if only else catalogue_cases()
    tiers: tuple[Tier, Tier] = ("open", "member")
    return Libraries(*(_library(replace(content_of(cases, tier, address, pyodide), served=True)) for tier in tiers))


def _library(content: Content) -> Library:
    files = {path: Document(body, media_type(path)) for path, body in (site_files(content) | _own_assets()).items()}
    folders = {
        path.removesuffix(_INDEX): document
        for path, document in files.items()
        if path == _INDEX or path.endswith(f"/{_INDEX}")
    }
    return Library(content, {**files, **folders}, {case.id: case for case in content.cases})


def _own_assets() -> dict[str, bytes]:
    """Returns what the pages of the member area need beside the assets of all pages."""
    return {f"assets/{path.name}": path.read_bytes() for path in sorted(_ASSETS.iterdir())}


def media_type(path: str) -> str:
    """Returns what a file is, by its ending.

    Example:
        >>> media_type("case/FM-001-1.json"), media_type("index.html")
        ('application/json', 'text/html; charset=utf-8')
    """
    known = _TYPES.get(Path(path).suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"{known}; charset=utf-8" if known.startswith("text/") else known
