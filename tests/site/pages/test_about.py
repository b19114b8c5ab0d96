"""The page about the site, that of no page, and what is told of the contracts that are held back."""

from __future__ import annotations

import json

import pytest

from failuremap.site import addresses
from failuremap.site.content import Content
from failuremap.site.frame import Frame
from failuremap.site.pages import about
from site_pages import Page


@pytest.fixture(scope="module")
def made(content) -> dict[str, str]:
    return dict(about.pages(Frame(content)))


def test_the_anchors_that_other_pages_name_are_there(made):
    assert {"verified", "tiers", "members", "licence", "files"} <= set(Page(made[addresses.ABOUT]).ids)


def test_each_contract_that_is_held_back_is_told_and_nothing_else_of_it(made, content):
    page = Page(made[addresses.HELD_BACK])

    assert len(content.contracts) > 5
    for one in content.contracts:
        assert f"contract-{one['contract_id']}" in page.ids
        assert " ".join(one["contract"]["text"].split()) in page.text
    assert json.loads(made["held-back.json"]) == list(content.contracts)


def test_a_site_with_nothing_held_back_says_so():
    made = dict(about.pages(Frame(Content("open", ()))))

    assert "Nothing is held back." in Page(made[addresses.HELD_BACK]).text


@pytest.mark.parametrize(("address", "root"), [("https://a.example/", "/"), ("https://a.example/b/c/", "/b/c/")])
def test_the_page_for_no_page_links_from_the_root(address, root):
    made = dict(about.pages(Frame(Content("open", (), address=address))))

    links = [link for link in Page(made[addresses.NOT_FOUND]).links if link != "#main"]
    assert links and all(link.startswith(root) and "//" not in link for link in links)
