"""Groups, categories and reports: each has all its mechanisms, and each mechanism is in one of each."""

from __future__ import annotations

import json

import pytest

from failuremap.site import addresses
from failuremap.site.frame import Frame
from failuremap.site.pages import collections
from site_pages import Page


@pytest.fixture(scope="module")
def made(content) -> dict[str, str]:
    return dict(collections.pages(Frame(content)))


def test_every_mechanism_is_on_the_page_of_its_group_and_category(made, content):
    for slug, family in content.families.items():
        for path in (
            addresses.group_page(family.first.evaluation_group),
            addresses.category_page(family.first.category),
        ):
            assert f"../../{addresses.mechanism_page(slug)}" in Page(made[path]).links
            assert slug in [one["slug"] for one in json.loads(made[addresses.json_of(path)])["mechanisms"]]


def test_a_report_has_its_own_address_and_the_mechanisms_that_cite_it(made, content):
    for url, families in content.reports.items():
        page = Page(made[addresses.report_page(url)])
        assert url in page.links
        assert {f"../../{addresses.mechanism_page(one.slug)}" for one in families} <= set(page.links)


def test_the_lists_lead_to_all_of_them(made, content):
    groups, reports = Page(made[addresses.GROUPS]), Page(made[addresses.REPORTS])

    assert {f"../{addresses.group_page(name)}" for name in content.groups} <= set(groups.links)
    assert {f"../{addresses.report_page(url)}" for url in content.reports} <= set(reports.links)
    assert json.loads(made["report.json"])["reports"].keys() == content.reports.keys()


def test_the_name_of_a_group_that_is_held_back_is_nowhere(made):
    assert not any("window-divisor" in text or "window-parts" in text for text in made.values())


def test_a_report_elsewhere_is_filed_under_its_host():
    assert collections.place_of("https://pytorch.org/blog/a/") == "pytorch.org"
