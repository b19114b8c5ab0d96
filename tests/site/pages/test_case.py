"""The page of a case, its record and bundle beside it, and the other names that lead there."""

from __future__ import annotations

import pytest

from catalogue.exchange.making import all_cases
from failuremap.catalogue.exchange.bundle import read_bundle
from failuremap.catalogue.records import case_from_json
from failuremap.site import addresses
from failuremap.site.content import content_of
from failuremap.site.frame import Frame
from failuremap.site.pages import case as case_pages
from site_pages import Page


@pytest.fixture(scope="module")
def made(content) -> dict[str, str | bytes]:
    return dict(case_pages.pages(Frame(content)))


@pytest.fixture(scope="module")
def page(made) -> Page:
    return Page(made[addresses.case_page("FM-001-3")])


def test_the_page_shows_its_own_variant_alone(page):
    assert "Replica gradients ignore local sample counts · case 03" in page.text
    assert "N = 3: each fixture" in page.text and "N = 1: each fixture" not in page.text
    assert not [one for _, one in page.tags if "of-1" in (one.get("class") or "").split()]


def test_its_number_is_marked_and_the_others_are_a_link_away(page):
    current = [one["href"] for one in page.all("a") if one.get("aria-current") == "page"]

    assert current == ["../../case/FM-001-3/index.html"]
    assert {f"../../{addresses.case_page(f'FM-001-{n}')}" for n in range(1, 6)} <= set(page.links)


def test_the_record_beside_it_is_the_published_one(made, content):
    for case in content.cases:
        assert case_from_json(made[f"case/{case.id}.json"]).sha256 == case.sha256


def test_the_bundle_beside_it_is_whole(made):
    assert read_bundle(made["case/FM-001-3.zip"], "FM-001-3.zip").id == "FM-001-3"


def test_a_member_reads_the_harness_there():
    content = content_of(all_cases(), "member")
    page = Page(dict(case_pages.pages(Frame(content)))[addresses.case_page("FM-001-1")])

    assert "harness" in page.ids
    assert " ".join(content.cases[0].harness.source.split()) in page.text


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("FA-99241", "case/FM-001-1/index.html"),
        ("FA-99246", "case/FM-002-1/index.html"),
        ("FM-001", "mechanism/replica-means-ignore-counts/index.html"),
    ],
)
def test_another_name_leads_on(made, name, target):
    page = Page(made[addresses.case_page(name)])

    (refresh,) = [one["content"] for one in page.all("meta") if one.get("http-equiv") == "refresh"]
    (canonical,) = [one["href"] for one in page.all("link") if one.get("rel") == "canonical"]
    assert (refresh, canonical) == (f"0; url=../../{target}", f"../../{target}")
    assert f"../../{target}" in page.links
