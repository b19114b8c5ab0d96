"""Where things stand in the site: the path of each page and file from its root, and the way from one to another."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

INDEX = "index.html"
START = INDEX
MECHANISMS = f"mechanism/{INDEX}"
SYMPTOMS = f"symptom/{INDEX}"
GROUPS = f"group/{INDEX}"
CATEGORIES = f"category/{INDEX}"
REPORTS = f"report/{INDEX}"
HELD_BACK = f"held-back/{INDEX}"
ABOUT = f"about/{INDEX}"
SCHEMA = "record.schema.json"
FEED = "feed.atom"
MODIFIED = "modified.csv"
ALL = "all.zip"
SITEMAP = "sitemap.xml"
ROBOTS = "robots.txt"
NOT_FOUND = "404.html"


def mechanism_page(slug: str) -> str:
    """Returns the page of a mechanism."""
    return f"mechanism/{slug}/{INDEX}"


def case_page(case_id: str) -> str:
    """Returns the page of a case, by its id or its alias."""
    return f"case/{case_id}/{INDEX}"


def bundle_file(case_id: str) -> str:
    """Returns the zip of a case."""
    return f"case/{case_id}.zip"


def group_page(group: str) -> str:
    """Returns the page of an evaluation group."""
    return f"group/{group}/{INDEX}"


def category_page(category: str) -> str:
    """Returns the page of a category, given by its name.

    Example:
        >>> category_page("Distributed training aggregation")
        'category/distributed-training-aggregation/index.html'
    """
    return f"category/{slug_of(category)}/{INDEX}"


def report_page(url: str) -> str:
    """Returns the page of a public report, given by its own address.

    Example:
        >>> report_page("https://github.com/pytorch/pytorch/pull/115967")
        'report/pytorch-pytorch-pull-115967/index.html'
    """
    parts = urlsplit(url)
    host = "" if parts.netloc == "github.com" else parts.netloc
    return f"report/{slug_of(f'{host} {parts.path} {parts.fragment}')}/{INDEX}"


def json_of(page: str) -> str:
    """Returns the JSON that says what a page says: the page's address with `.json` behind it.

    Example:
        >>> json_of("case/FM-001-3/index.html")
        'case/FM-001-3.json'
    """
    return f"{page.removesuffix(f'/{INDEX}')}.json"


def slug_of(name: str) -> str:
    """Returns a name as a part of an address: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def relative(target: str, page: str) -> str:
    """Returns the link to a file of the site from one of its pages.

    Example:
        >>> relative("assets/style.css", "case/FM-001-3/index.html")
        '../../assets/style.css'
        >>> relative("case/FM-001-3/index.html#attempt", "case/FM-001-2/index.html")
        '../../case/FM-001-3/index.html#attempt'
    """
    return "../" * page.count("/") + target
