"""A build: the same bytes, there whole or not at all, nothing withheld in it, and no way that leads nowhere."""

from __future__ import annotations

import html
import json
import re
import resource
import sys
from contextlib import contextmanager

import pytest

from catalogue.exchange.leaks import found, open_secrets
from catalogue.exchange.making import all_cases
from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.tiers import CANARIES
from failuremap.errors import InvalidArgument
from failuremap.site import addresses
from failuremap.site import build as build_site
from failuremap.site.build import check_address, site_files
from failuremap.site.content import catalogue_cases, content_of
from site_pages import Page, dead_links, doubled_ids, loaded, pages_of

MOST_BYTES = 60_000


@pytest.fixture(scope="module")
def files(content):
    return site_files(content)


@pytest.fixture(scope="module")
def pages(files):
    return pages_of(files)


def readable(files: dict[str, bytes]) -> dict[str, bytes]:
    """Add to each page what a reader sees of it, highlighted scripts in one piece."""
    seen = {
        f"{name} as read": html.unescape(re.sub(rb"<[^>]*>", b"", text).decode()).encode()
        for name, text in files.items()
        if name.endswith(".html")
    }
    return {**files, **seen}


def unique_lines(files: dict[str, bytes]) -> dict[str, bytes]:
    """Fold a build into the lines that it has, each once: to search it takes seconds, not minutes."""
    lines = {line.strip() for text in files.values() for line in text.splitlines()}
    return {"all lines": b"\n".join(sorted(lines))}


def test_a_link_leads_to_a_file_and_an_anchor_to_an_id(pages, files):
    assert dead_links(pages, files) == []


def test_a_dead_link_would_be_found():
    files = {
        "a/index.html": b'<a href="../b.html">b</a><a href="#no">c</a><a href="../a/index.html#yes" id="yes">d</a>'
    }

    assert dead_links(pages_of(files), files) == ["a/index.html: ../b.html", "a/index.html: #no"]


def test_nothing_is_fetched_from_elsewhere(pages):
    assert [
        (name, what) for name, page in pages.items() for what in loaded(page) if re.match(r"[a-z]+:|//", what)
    ] == []


def test_what_is_fetched_would_be_seen():
    page = Page('<link rel="stylesheet" href="https://a/b.css"><img src="//c"><a href="https://d">d</a>')

    assert list(loaded(page)) == ["https://a/b.css", "//c"]


def test_styles_fetch_nothing(files):
    sheets = [text.decode() for name, text in files.items() if name.endswith(".css")]

    assert sheets and not any(re.search(r"url\(|@import", text) for text in sheets)


def test_a_page_is_small(files):
    assert {name: len(text) for name, text in files.items() if name.endswith(".html") and len(text) > MOST_BYTES} == {}


def test_every_page_has_its_own_title_a_heading_and_the_landmarks(pages):
    titles = [page.words[next(i for i, word in enumerate(page.words) if word.strip())] for page in pages.values()]

    assert len(set(titles)) == len(titles)
    for name, page in pages.items():
        assert [len(page.all(tag)) for tag in ("h1", "main", "title")] == [1, 1, 2 if page.all("svg") else 1], name
        assert {"header", "nav", "footer", "form"} <= {tag for tag, _ in page.tags}, name
        assert page.all("html") == [{"lang": "en"}], name
        assert page.unclosed == [], name
        assert doubled_ids(page) == [], name


def test_tables_have_captions_and_scopes(pages):
    for name, page in pages.items():
        assert len(page.all("caption")) == len(page.all("table")), name
        assert all(one.get("scope") in {"col", "row"} for one in page.all("th")), name


def test_no_style_and_no_script_stands_in_a_page(pages):
    inline = [
        (name, tag)
        for name, page in pages.items()
        for tag, one in page.tags
        if "style" in one
        or tag == "style"
        or (tag == "script" and not one.get("src"))
        or any(k[:2] == "on" for k in one)
    ]

    assert inline == []


def test_the_same_catalogue_gives_the_same_bytes(files, content):
    assert site_files(content) == files


def test_a_page_has_json_beside_it(files):
    pages = [name for name in files if re.match(r"(mechanism|group|category|report|case)/[^/]+/index\.html", name)]
    own = [name for name in pages if not re.match(r"case/(FA-\d+|FM-\d{3})/", name)]

    assert len(own) > 100
    assert [name for name in own if name.replace("/index.html", ".json") not in files] == []
    assert all(json.loads(text) for name, text in files.items() if name.endswith(".json"))


def test_the_open_tier_holds_nothing_that_is_withheld():
    files = readable(site_files(content_of(all_cases(), "open")))

    assert found(files, open_secrets(all_cases())) == []


def test_the_member_tier_holds_the_repair_and_nothing_of_what_is_held_back():
    files = readable(site_files(content_of(all_cases(), "member")))
    there = found(files, open_secrets(all_cases()))

    held_back = {what for what in open_secrets(all_cases()) if what.startswith("FM-999")}
    assert [line for line in there if line.split(" in ")[0] in held_back] == []
    pages = {line.split(" in ")[1] for line in there if line.startswith("FM-001-1 repair")}
    assert {"mechanism/replica-means-ignore-counts/index.html as read", "case/FM-001-1.json"} <= pages
    assert "case/FM-001-1/index.html as read" in {
        line.split(" in ")[1] for line in there if line.startswith("FM-001-1 implementations.fixed .source")
    }


@pytest.mark.slow
def test_a_build_of_the_whole_catalogue_holds_nothing_that_is_withheld(site):
    cases = released_cases()
    files = {str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()}
    text = {name: content for name, content in files.items() if not name.endswith(".zip")}
    lines = unique_lines(readable(text))
    open_lines = unique_lines({"open": "\n".join(case.to_open().to_json() for case in cases).encode()})["all lines"]
    secrets = {
        line.strip(): what
        for what, secret in open_secrets(cases).items()
        for line in secret.splitlines()
        if len(line.strip()) > 8 and json.dumps(line.strip())[1:-1].encode() not in open_lines
    }

    assert len(secrets) > 1000
    assert found(lines, {f"{what}: {line}": line for line, what in secrets.items()}) == []


@pytest.mark.parametrize("tier", ["open", "member"])
def test_every_page_and_record_has_the_canary_of_its_tier(tier):
    files = site_files(content_of(all_cases(), tier))

    endings = (".html", ".xml", ".atom", ".txt", ".json", ".zip")
    marked = [name for name in files if name.endswith(endings) and name != addresses.SCHEMA]
    assert [name for name in marked if CANARIES[tier].encode() not in files[name]] == []
    if tier == "open":
        assert not any(CANARIES["member"].encode() in text for text in files.values())


def test_the_sealed_tier_has_no_pages():
    with pytest.raises(
        InvalidArgument, match="tier='sealed': what is held back is shown nowhere; choose open or member"
    ):
        content_of(all_cases(), "sealed")


def test_a_folder_of_others_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years")

    with pytest.raises(InvalidArgument) as refused:
        build_site(tmp_path)

    assert str(refused.value) == (
        f"folder {str(tmp_path)!r} holds other files, such as 'thesis.txt'. "
        "Nothing was written; name a new folder, or empty this one."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.fixture
def no_large_files():
    """Let no file grow past 20 kB, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    @contextmanager
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


def test_a_build_that_fails_leaves_the_old_one(tmp_path, monkeypatch, no_large_files):
    monkeypatch.setattr(sys.modules["failuremap.site.build"], "catalogue_cases", all_cases)
    folder = tmp_path / "public"
    first = build_site(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    with pytest.raises(InvalidArgument, match="can't be written: File too large"), no_large_files():
        build_site(folder)

    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert len(before) == first.file_count and sum(map(len, before.values())) == first.byte_count
    assert [path.name for path in tmp_path.iterdir()] == ["public"]


@pytest.mark.parametrize(
    "address", ["", "example.org/", "https://example.org", "ftp://a/", "https://a/?b=/", "https:///"]
)
def test_what_is_no_address_of_a_folder_is_refused(address):
    with pytest.raises(InvalidArgument) as refused:
        check_address(address)

    assert str(refused.value) == (
        f"address={address!r}: expected where the site will stand, with a slash at its end, "
        "such as 'http://localhost:8000/'."
    )


@pytest.mark.slow
def test_a_site_needs_one_case_of_a_family_that_is_held_back_and_all_of_the_others():
    cases = catalogue_cases()
    held_back = [case for case in cases if case.visibility == "sealed"]

    assert len({case.family for case in held_back}) == len(held_back) > 0
    assert {case.variant for case in cases if case.visibility == "open"} == {1, 2, 3, 4, 5}
