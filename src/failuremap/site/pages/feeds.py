"""What machines read of the whole: feed, list of changes, sitemap, robots, schema, and all records in one zip."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from failuremap.catalogue.exchange.archive import pack
from failuremap.catalogue.records.schema import schema_text
from failuremap.site import addresses
from failuremap.site.content import Content
from failuremap.site.frame import Frame


def pages(frame: Frame) -> Iterator[tuple[str, str | bytes]]:
    """Yields these files."""
    content = frame.content
    newest = sorted(content.families.values(), key=lambda family: (family.first.modified, family.number), reverse=True)
    yield addresses.FEED, frame.page(addresses.FEED, "feed.xml", families=newest)
    yield addresses.MODIFIED, _modified(content)
    yield addresses.SITEMAP, frame.page(addresses.SITEMAP, "sitemap.xml", entries=list(_entries(content)))
    yield addresses.ROBOTS, f"# {content.canary}\nUser-agent: *\nAllow: /\nSitemap: {content.address}sitemap.xml\n"
    yield addresses.SCHEMA, schema_text()
    texts = {name: text for family in content.families.values() for name, text in family.records.items()}
    records = {f"{name}.json": text.encode() for name, text in texts.items()}
    yield addresses.ALL, pack(records, "failuremap", content.canary)


def _modified(content: Content) -> str:
    """Writes a row for each case, the newest first, and of one day by their ids."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["modified", "id", "family", "sha256", "record"])
    cases = sorted(content.cases, key=lambda case: case.id)
    for case in sorted(cases, key=lambda case: case.modified, reverse=True):
        rows.writerow(
            [case.modified, case.id, case.family, case.sha256, addresses.json_of(addresses.case_page(case.id))]
        )
    return text.getvalue()


def _entries(content: Content) -> Iterator[tuple[str, str]]:
    """Yields the pages that readers look for, with the day of their last change."""
    newest = max((case.modified for case in content.cases), default="")
    for page in (
        addresses.START, addresses.MECHANISMS, addresses.SYMPTOMS, addresses.GROUPS, addresses.CATEGORIES,
        addresses.REPORTS, addresses.HELD_BACK, addresses.ABOUT,
    ):  # fmt: skip
        yield page, newest
    for slug, family in content.families.items():
        yield addresses.mechanism_page(slug), family.first.modified
        for case in family.cases:
            yield addresses.case_page(case.id), case.modified
    groups = [(addresses.group_page(name), families) for name, families in content.groups.items()]
    categories = [(addresses.category_page(name), families) for name, families in content.categories.items()]
    reports = [(addresses.report_page(name), families) for name, families in content.reports.items()]
    for page, families in (*groups, *categories, *reports):
        yield page, max(family.first.modified for family in families)
