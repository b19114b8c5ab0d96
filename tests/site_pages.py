"""Pages as a reader without JavaScript meets them: their links, ids, words; for the tests of the site."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from html.parser import HTMLParser

# What has no end tag, and what may do without.
_VOID = frozenset(
    "area base br col embed hr img input link meta source track wbr circle line path rect td th tr".split()
)


class Page(HTMLParser):
    """One page, read once."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.unclosed: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.unclosed.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that is open; any other stays, and is found."""
        if tag not in _VOID and self.unclosed and self.unclosed[-1] == tag:
            self.unclosed.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that closes itself."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Note what a reader sees."""
        self.words.append(data)

    @cached_property
    def text(self) -> str:
        """What a reader sees, with single blanks."""
        return " ".join("".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each tag of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the page."""
        return [one["id"] or "" for _, one in self.tags if "id" in one]

    @cached_property
    def links(self) -> list[str]:
        """What the page links to, and what it loads."""
        named = ("href", "src", "action", "data-record")
        return [one[name] or "" for _, one in self.tags for name in named if name in one]


def pages_of(files: Mapping[str, bytes]) -> dict[str, Page]:
    """Read all pages of a build."""
    return {name: Page(content.decode()) for name, content in files.items() if name.endswith(".html")}


def loaded(page: Page) -> Iterator[str]:
    """Yield what a browser fetches by itself for a page."""
    for tag, attributes in page.tags:
        fetching = tag == "link" and attributes.get("rel") in {"stylesheet", "icon", "preload", "modulepreload"}
        for name in ("src", "srcset", "data", "poster", *(["href"] if fetching or tag in {"use", "image"} else [])):
            if attributes.get(name):
                yield attributes[name] or ""
        if attributes.get("http-equiv", "").lower() == "refresh":
            yield (attributes.get("content") or "").partition("url=")[2]


def dead_links(pages: Mapping[str, Page], files: Mapping[str, bytes]) -> list[str]:
    """Return the links of pages that lead to no file of the build, or to no id of a page."""
    found = []
    for name, page in pages.items():
        for link in dict.fromkeys(page.links):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, fragment = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            target = link.lstrip("/").partition("#")[0] if link.startswith("/") else target
            if target not in files or (fragment and target in pages and fragment not in pages[target].ids):
                found.append(f"{name}: {link}")
    return found


def doubled_ids(page: Page) -> list[str]:
    """Return the ids that are there twice."""
    return [name for name, times in Counter(page.ids).items() if times > 1]
