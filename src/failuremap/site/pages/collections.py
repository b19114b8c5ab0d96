"""Categories, evaluation groups and public reports: a page and a JSON for each, with the mechanisms that it has."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from failuremap.catalogue.records.parts import Reference
from failuremap.site import addresses
from failuremap.site.content import Family
from failuremap.site.frame import Frame
from failuremap.site.pages.mechanism import as_json, summary


def pages(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yields the lists of categories, groups and reports, and the page and the JSON of each of these."""
    content = frame.content
    for index, kind, named in (
        (addresses.CATEGORIES, "categories", content.categories),
        (addresses.GROUPS, "groups", content.groups),
    ):
        yield index, frame.page(index, f"{kind}.html")
        yield addresses.json_of(index), _listed(kind, named, content.canary)
    for category, families in content.categories.items():
        yield from _page(frame, addresses.category_page(category), "category.html", category, families)
    for group, families in content.groups.items():
        yield from _page(frame, addresses.group_page(group), "group.html", group, families)
    yield from _reports(frame)


def _page(frame: Frame, path: str, template: str, name: str, families: list[Family]) -> Iterator[tuple[str, str]]:
    yield path, frame.page(path, template, name=name, families=families)
    document = {"name": name, "mechanisms": [summary(one) for one in families], "canary": frame.content.canary}
    yield addresses.json_of(path), as_json(document)


def _listed(kind: str, named: dict[str, list[Family]], canary: str) -> str:
    return as_json({kind: {name: [one.slug for one in named[name]] for name in named}, "canary": canary})


def _reports(frame: Frame) -> Iterator[tuple[str, str]]:
    reports = frame.content.reports
    by_place: dict[str, list[str]] = {}
    for url in reports:
        by_place.setdefault(place_of(url), []).append(url)
    path = addresses.REPORTS
    yield path, frame.page(path, "reports.html", places=by_place)
    yield addresses.json_of(path), _listed("reports", reports, frame.content.canary)
    for url, families in reports.items():
        path = addresses.report_page(url)
        kind = _reference(families[0], url).kind
        yield path, frame.page(path, "report.html", url=url, kind=kind, place=place_of(url), families=families)
        document = {"url": url, "kind": kind, "mechanisms": [one.slug for one in families]}
        yield addresses.json_of(path), as_json({**document, "canary": frame.content.canary})


def place_of(url: str) -> str:
    """Returns where a report stands: its repository, or its host.

    Example:
        >>> place_of("https://github.com/pytorch/pytorch/pull/115967")
        'pytorch/pytorch'
    """
    parts = urlsplit(url)
    return "/".join(parts.path.split("/")[1:3]) if parts.netloc == "github.com" else parts.netloc


def _reference(family: Family, url: str) -> Reference:
    return next(one for one in family.first.references if one.url == url)
