"""The member area in a real browser: in by a passkey, a candidate handed in, its verdict read, out again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from served import PASSWORD, Server

pytestmark = pytest.mark.slow
AUTHENTICATOR = {
    "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
    "isUserVerified": True, "automaticPresenceSimulation": True,
}  # fmt: skip
WRONG = "def solve(rows):\n    return [0.0]\n"
PAGES = ["/sign-in", "/access", "/account", "/candidates/new?case=FM-001-1", "/candidates/1", "/no-such-page"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A site of these tests' own."""
    site = Server(tmp_path_factory.mktemp("site")).start()
    yield site
    site.stop()


def with_passkeys(page: Page) -> Page:
    """Give a page something that keeps passkeys, and agrees to all that is asked."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return page


def test_a_passkey_lets_in_out_and_in_again(server, page):
    with_passkeys(page).goto(server.url + server.invite("Ada"))
    page.get_by_role("button", name="Make a passkey").click()
    expect(page).to_have_url(f"{server.url}/account")
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()

    page.goto(f"{server.url}/sign-in")
    page.get_by_role("button", name="Sign in with a passkey").click()

    expect(page).to_have_url(f"{server.url}/account")
    expect(page.get_by_role("heading", name="Ada")).to_be_visible()


def test_a_candidate_is_handed_in_and_its_verdict_comes_by_itself(server, page):
    page.goto(server.url + server.invite("Grace"))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()
    page.get_by_role("link", name="Hand in a candidate for FM-001-1").click()
    page.get_by_label("Candidate").fill(WRONG)
    page.get_by_label("Note").fill("<script>alert(1)</script>")
    page.get_by_role("button", name="Hand in", exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Candidate 1: wrong", timeout=60_000)
    expect(page.get_by_text("<script>alert(1)</script>")).to_be_visible()
    expect(page.get_by_text("✗ broken").first).to_be_visible()


def test_the_forms_work_without_scripts(server, chromium):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url + server.invite("Plain"))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()

    expect(page).to_have_url(f"{server.url}/account")
    expect(page.get_by_role("button", name="Add a passkey")).to_be_hidden()
    context.close()


@pytest.fixture(scope="module")
def ada(server, chromium: Browser) -> Iterator[Page]:
    """The page of a member who has handed something in."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(server.url + server.invite("Reader"))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()
    yield page
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_the_pages_are_accessible(server, ada, npm: Callable[[str], Path], path, scheme):
    ada.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    ada.goto(server.url + path)
    ada.evaluate((npm("axe-core") / "axe.min.js").read_text(encoding="utf-8"))

    found = ada.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((results) => results.violations)")

    assert [f"{one['id']}: {node['html'][:150]}" for one in found for node in one["nodes"]] == []


def test_the_pages_are_valid(server, require, npm: Callable[[str], Path], tmp_path):
    java, member = require("java"), server.member("Valid")
    number = member.hand_in(WRONG).headers["Location"]
    member.verdict(number)
    paths = [*PAGES[:4], number, "/no-such-page", server.invite("Valid too")]
    for place, path in enumerate(paths):
        (tmp_path / f"{place}.html").write_bytes(member.get(path).content)
    jar = npm("vnu-jar") / "build/dist/vnu.jar"

    done = subprocess.run(
        [java, "-jar", jar, "--errors-only", *sorted(tmp_path.iterdir())], capture_output=True, text=True
    )

    assert done.stderr == ""
