"""A built site as visitors meet it: served as strictly as the member area is, its pages listed, its links followed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
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


class _Links(HTMLParser):
    """The anchors of a page, and what it links to or loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.anchors.add(str(found["id"]))
        for name in ("href", "src", "action", "data-record", "srcset", "poster"):
            if found.get(name) is not None:
                self.targets.append((tag, str(found[name])))


def read_links(path: Path) -> _Links:
    """Reads the anchors and targets of a page."""
    links = _Links()
    links.feed(path.read_text(encoding="utf-8"))
    return links


def pages_of(folder: Path) -> list[Path]:
    """Returns all pages of a built site."""
    return sorted(folder.rglob("*.html"))


def broken_links(folder: Path) -> list[str]:
    """Returns every link of a built site that leads to no file, or to no anchor of its page."""
    read = {path: read_links(path) for path in pages_of(folder)}
    broken = []
    for path, links in read.items():
        for _, target in links.targets:
            parts = urlsplit(target)
            if parts.scheme in {"http", "https", "data"}:
                continue
            aim = (path.parent / unquote(parts.path)).resolve() if parts.path else path
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
