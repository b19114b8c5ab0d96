"""Every kind of page in a real browser: accessible in light and dark, on desktop and phone; nothing asked elsewhere."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browsing import kinds_of

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
LOOKS = [(scheme, size) for scheme in ("light", "dark") for size in (DESKTOP, PHONE)]


@pytest.fixture(scope="module")
def axe(npm: Callable[[str], Path]) -> str:
    """The text of axe."""
    return (npm("axe-core") / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Page, axe: str) -> list[str]:
    """What axe finds on a page as it stands."""
    page.evaluate(axe)
    found = page.evaluate(
        "axe.run(document, { resultTypes: ['violations'], preload: false }).then((results) => results.violations)"
    )
    return [f"{one['id']}: {one['help']}: {node['html'][:150]}" for one in found for node in one["nodes"]]


@pytest.fixture(params=LOOKS, ids=lambda look: f"{look[0]}-{look[1]['width']}")
def look(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Page]:
    """A page in one colour scheme and one size."""
    scheme, size = request.param
    context = chromium.new_context(color_scheme=scheme, viewport=size, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def test_the_page_of_a_mechanism_is_accessible(look: Page, address, axe):
    look.goto(f"{address}mechanism/replica-means-ignore-counts/index.html")

    assert violations(look, axe) == []


@pytest.mark.slow
def test_every_kind_of_page_is_accessible(look: Page, address, site, axe):
    found = {}
    for kind in kinds_of(site, from_disk=False):
        look.goto(f"{address}{kind}")
        found[kind] = violations(look, axe)

    assert {kind: seen for kind, seen in found.items() if seen} == {}
    assert len(found) >= 12


@pytest.mark.slow
def test_search_results_and_answers_are_accessible(look: Page, address, axe):
    look.goto(f"{address}symptom/index.html")
    look.check('[value="nonfinite"]')
    look.check('[value="empty-contribution"]')
    look.fill("#search", "nan")
    look.wait_for_selector(".found a")
    for details in look.locator("details").all()[:3]:
        details.evaluate("(one) => { one.open = true; }")

    assert violations(look, axe) == []


@pytest.mark.parametrize("planted", ["<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "<a href='#main'></a>"])
def test_negative_control_axe_finds_what_is_planted(page: Page, address, axe, planted):
    page.goto(f"{address}about/index.html")
    page.evaluate("(html) => document.querySelector('main').insertAdjacentHTML('beforeend', html)", planted)
    found = violations(page, axe)

    assert len(found) == 1


def test_no_page_scrolls_sideways_on_a_phone(chromium: Browser, disk, site):
    context = chromium.new_context(viewport=PHONE)
    page = context.new_page()
    wide = {}
    for kind in kinds_of(site):
        page.goto(f"{disk}{kind}")
        wide[kind] = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    page.evaluate("Object.assign(document.querySelector('main').style, { width: '500px' })")
    planted = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    context.close()

    assert {kind: by for kind, by in wide.items() if by > 0} == {}
    assert planted > 0


@pytest.fixture
def watched(page: Page) -> tuple[Page, list[str]]:
    """A page, and the addresses that it asks for."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return page, asked


@pytest.mark.parametrize("start", [pytest.param("address", marks=pytest.mark.slow), "disk"])
def test_nothing_is_asked_of_anybody_else(watched, request, site, start):
    page, asked = watched
    home = request.getfixturevalue(start)
    for kind in kinds_of(site):
        page.goto(f"{home}{kind}")
    page.fill("#search", "nan")
    page.wait_for_selector(".found a")

    assert [url for url in asked if not url.startswith(home)] == []
    assert len(asked) > 30


def test_negative_control_a_request_to_another_host_is_noticed(chromium: Browser, disk):
    asked: list[str] = []
    context = chromium.new_context()
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.route("http://elsewhere.invalid/**", lambda route: route.abort())
    page.goto(f"{disk}about/index.html")
    page.evaluate("document.body.append(Object.assign(new Image(), { src: 'http://elsewhere.invalid/x.png' }))")
    page.wait_for_timeout(50)
    context.close()

    assert "http://elsewhere.invalid/x.png" in asked


@pytest.mark.slow
def test_a_mechanism_is_reached_and_left_by_the_tab_key_alone(page: Page, disk):
    page.goto(f"{disk}mechanism/partials-averaged/index.html")
    reached = []
    for _ in range(400):
        page.keyboard.press("Tab")
        place = page.evaluate("""() => {
          const one = document.activeElement;
          const shown = getComputedStyle(one).outlineStyle !== 'none' || getComputedStyle(one).boxShadow !== 'none';
          return [one.tagName, one.textContent.trim().slice(0, 30), shown];
        }""")
        if place[0] == "BODY":
            break
        reached.append(place)

    assert reached[0][1] == "Skip to the content"
    assert [place for place in reached if not place[2]] == []
    stops = page.evaluate("""() => [...document.querySelectorAll('a[href], button, input, [tabindex="0"], summary')]
      .filter((one) => one.checkVisibility() && !one.disabled).length""")
    assert len(reached) >= stops - 1


@pytest.mark.slow
def test_every_page_is_valid_html_but_for_one_that_is_planted(site, tmp_path, npm, require):
    head = "<!doctype html><html lang=en><title>planted</title>"
    (tmp_path / "planted.html").write_text(f"{head}<p><img src='x.png'>")
    jar = npm("vnu-jar") / "build/dist/vnu.jar"
    told = "--format json --skip-non-html --also-check-svg --stdout --exit-zero-always".split()
    command = [require("java"), "-Xss4m", "-jar", str(jar), *told, str(site), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    complaints = [(Path(one.get("url", "")).name, one["message"], one) for one in json.loads(done.stdout)["messages"]]
    assert [one for name, _, one in complaints if name != "planted.html"] == []
    assert [message for _, message, _ in complaints if "alt" in message] != []
