"""A built site as visitors meet it: served as strictly as the member area is, its pages listed, its links followed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

FLAGS = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-dev-shm-usage"
).split()
POLICY = (
    "default-src 'none'; script-src 'self'{wasm}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'"
)
COMPILES = "/assets/run-worker.js"
"""The one script that compiles WebAssembly; a worker has the policy with which its script came."""


class _Handler(SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {
        **SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".js": "text/javascript"
    }  # fmt: skip

    def end_headers(self) -> None:
        wasm = " 'wasm-unsafe-eval'" if self.path.startswith(COMPILES) else ""
        self.send_header("Content-Security-Policy", POLICY.format(wasm=wasm))
        super().end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder; the address of its start page comes back."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_TAG = re.compile(r"<([a-z]\w*)\b([^>]*)>")
_ATTRIBUTE = re.compile(r"""([a-z-]+)=(?:"([^"]*)"|'([^']*)')""")
_LEADS = {"href", "src", "action", "data-record"}


@dataclass(frozen=True)
class Links:
    """The anchors of a page, and what it links to or loads, each with its tag."""

    anchors: frozenset[str]
    targets: tuple[tuple[str, str], ...]


@cache
def read_links(path: Path) -> Links:
    """Reads the anchors and targets of a page; that its HTML is valid is held by the validator."""
    found = [
        (tag, name, unescape(double or single))
        for tag, attributes in _TAG.findall(path.read_text(encoding="utf-8"))
        for name, double, single in _ATTRIBUTE.findall(attributes)
        if name == "id" or name in _LEADS
    ]
    anchors = frozenset(value for _, name, value in found if name == "id")
    return Links(anchors, tuple((tag, value) for tag, name, value in found if name != "id"))


def pages_of(folder: Path) -> list[Path]:
    """Returns all pages of a built site."""
    return sorted(folder.rglob("*.html"))


def aim_of(folder: Path, page: Path, path: str) -> Path:
    """Returns the file that a path on a page stands for; one with a slash before it is meant from the site's root."""
    if path.startswith("/"):
        return (folder / unquote(path).lstrip("/")).resolve()
    return (page.parent / unquote(path)).resolve() if path else page


def broken_links(folder: Path) -> list[str]:
    """Returns every link of a built site that leads to no file, or to no anchor of its page."""
    read = {path: read_links(path) for path in pages_of(folder)}
    broken = []
    for path, links in read.items():
        for _, target in links.targets:
            parts = urlsplit(target)
            if parts.netloc or parts.scheme == "data":
                continue
            aim = aim_of(folder, path, parts.path)
            anchored = not parts.fragment or (aim in read and unquote(parts.fragment) in read[aim].anchors)
            if not aim.is_file() or not anchored:
                broken.append(f"{path.relative_to(folder)}: {target}")
    return broken


def loaded_from_elsewhere(folder: Path) -> list[str]:
    """Returns what pages load, and not merely link to, from another host."""
    return [
        f"{path.relative_to(folder)}: <{tag}> {target}"
        for path in pages_of(folder)
        for tag, target in read_links(path).targets
        if urlsplit(target).netloc and tag != "a"
    ]


def kinds_of(folder: Path, *, from_disk: bool = True) -> list[str]:
    """Returns the largest page of each kind: those at the same depth below the same first folder are of one kind.

    Args:
        folder: The built site.
        from_disk: Without the page that servers send where there is none.
    """
    found: dict[tuple[str, int], Path] = {}
    for path in sorted(pages_of(folder), key=lambda path: path.stat().st_size):
        parts = path.relative_to(folder).parts
        found[parts[0], len(parts)] = path
    names = [str(path.relative_to(folder)) for path in found.values()]
    return sorted(name for name in names if not (from_disk and name == "404.html"))
