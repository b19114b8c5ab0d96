"""Every link of the site leads somewhere, nothing is loaded from elsewhere, and no page is heavy."""

from __future__ import annotations

import gzip
import random
import shutil
from functools import cache
from pathlib import Path

import pytest

from browsing import aim_of, broken_links, loaded_from_elsewhere, pages_of, read_links

MOST_BYTES = 60_000
LOADS = {"link", "script"}
LOADED = {".html", ".css", ".js"}


def sent(site: Path, page: Path) -> int:
    """Bytes of a page with the styles and scripts that come with it, compressed as servers send them."""
    loaded = [page, *(aim_of(site, page, target) for tag, target in read_links(page).targets if tag in LOADS)]
    return sum(compressed(path) for path in dict.fromkeys(loaded) if path.suffix in LOADED)


@cache
def compressed(path: Path) -> int:
    """Size of a file in gzip."""
    return len(gzip.compress(path.read_bytes(), 6))


def test_every_link_leads_to_a_file_and_its_anchor(site):
    assert broken_links(site) == []
    assert len(pages_of(site)) > 300


def test_nothing_is_loaded_from_another_host(site):
    assert loaded_from_elsewhere(site) == []


def test_no_page_is_heavier_than_60_kB_before_its_images(site):
    assert {page: page.stat().st_size for page in pages_of(site) if page.stat().st_size > MOST_BYTES} == {}


def test_no_page_with_its_styles_and_scripts_is_sent_in_more_than_60_kB(site):
    assert {page: sent(site, page) for page in pages_of(site) if sent(site, page) > MOST_BYTES} == {}


@pytest.fixture
def spoilt(site, tmp_path) -> Path:
    """A page of the site, to be spoilt, in a folder of its own with all that it needs."""
    shutil.copytree(site / "assets", tmp_path / "assets")
    shutil.copytree(site / "about", tmp_path / "about")
    return tmp_path / "about/index.html"


@pytest.mark.parametrize("target", ["../no/such.html", "#no-such-anchor", "../about/index.html#nowhere", "../about"])
def test_negative_control_a_planted_link_is_found(spoilt, target):
    spoilt.write_text(spoilt.read_text().replace("</main>", f'<a href="{target}">planted</a></main>'))

    assert f"about/index.html: {target}" in broken_links(spoilt.parents[1])


@pytest.mark.parametrize(
    "planted", ['<img src="https://cdn.example/x.png">', '<script src="//cdn.example/x.js"></script>']
)
def test_negative_control_what_is_loaded_from_elsewhere_is_found(spoilt, planted):
    spoilt.write_text(spoilt.read_text().replace("</main>", f"{planted}</main>"))

    assert len(loaded_from_elsewhere(spoilt.parents[1])) == 1


def test_negative_control_scripts_are_weighed_with_the_page(spoilt):
    (spoilt.parents[1] / "assets/search-page.js").write_bytes(random.Random(1).randbytes(MOST_BYTES))

    assert sent(spoilt.parents[1], spoilt) > MOST_BYTES
