"""Templates -> pages: one environment, and for each page the links as they are from there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from failuremap import __version__
from failuremap.site import addresses
from failuremap.site.content import Content

TEMPLATES = Path(__file__).parent / "templates"
ASSETS = Path(__file__).parent / "assets"

environment = Environment(
    loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
environment.globals |= {"at": addresses, "version": __version__}


@dataclass(frozen=True)
class Frame:
    """Makes the pages of one build.

    Attributes:
        content: What the build shows.
    """

    content: Content

    def page(self, path: str, template: str, **names: Any) -> str:
        """Returns the page at this path of the site.

        In a template, `link("mechanism/index.html")` is the way there from the page, `at` has the addresses, `path` is
        the page's own.
        """
        given = {"content": self.content, "path": path, "link": partial(_link, path), **names}
        return environment.get_template(template).render(given)

    def link_from_anywhere(self, target: str) -> str:
        """Returns a link for a page that a server shows at addresses which are not its own."""
        return urlsplit(self.content.address).path + target


def _link(page: str, target: str) -> str:
    return addresses.relative(target, page)
