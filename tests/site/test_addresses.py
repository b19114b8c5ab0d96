"""Addresses: a link leads from each page to each file, and no two things share one."""

from __future__ import annotations

import posixpath

import pytest

from failuremap.site import addresses


@pytest.mark.parametrize("page", ["index.html", "about/index.html", "case/FM-001-3/index.html"])
@pytest.mark.parametrize("target", ["index.html", "assets/style.css", "case/FM-001-2.json", "mechanism/a/index.html#b"])
def test_a_link_leads_from_page_to_target(page, target):
    way = addresses.relative(target, page)

    assert posixpath.normpath(posixpath.join(posixpath.dirname(page), way)) == target


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://github.com/a/b/issues/12", "report/a-b-issues-12/index.html"),
        ("https://github.com/a/b/issues/12#issuecomment-3", "report/a-b-issues-12-issuecomment-3/index.html"),
        ("https://pytorch.org/blog/x/", "report/pytorch-org-blog-x/index.html"),
    ],
)
def test_a_report_has_a_readable_address(url, page):
    assert addresses.report_page(url) == page


def test_no_two_reports_share_a_page(content):
    pages = [addresses.report_page(url) for url in content.reports]

    assert len(set(pages)) == len(pages)


def test_the_json_of_a_page_is_its_address_with_an_ending():
    assert addresses.json_of(addresses.mechanism_page("a-b")) == "mechanism/a-b.json"
