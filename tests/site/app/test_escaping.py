"""What a member sends is shown as text on every page."""

from __future__ import annotations

import pytest

from failuremap.site.app.database import opened, transaction
from failuremap.site.app.submissions import finish

SCRIPT = "</pre></textarea><script>alert('x')</script>\"'><img src=x onerror=alert(1)>{{ 7777*7777 }}"
NAME = "<script>alert(1)</script>"


def holds_no_script(text: str) -> bool:
    """Say whether a page is free of the scripts that these tests plant."""
    return "<script>alert" not in text and "<img src=x" not in text and "60481729" not in text


@pytest.fixture(scope="module")
def mallory(server):
    """A member whose name is a script."""
    return server.member(NAME)


def test_a_name_is_text(server, mallory):
    pages = [mallory.get(path).text for path in ("/account", "/candidates/new?case=FM-001-1")]
    pages.append(server.visitor().get(server.invite(f"{NAME}2")).text)

    assert all("&lt;script&gt;alert(1)&lt;/script&gt;" in page for page in pages)
    assert all(map(holds_no_script, pages))


def test_the_text_and_the_note_of_a_candidate_are_text(mallory):
    path = mallory.hand_in(SCRIPT, note=SCRIPT).headers["Location"]

    for page in (mallory.get(path), mallory.get("/account")):
        assert "&lt;script&gt;alert" in page.text
        assert holds_no_script(page.text)


def test_a_candidate_that_is_refused_comes_back_as_text(mallory):
    answer = mallory.hand_in(SCRIPT, note=SCRIPT * 5)

    assert answer.status_code == 422
    assert "&lt;script&gt;alert" in answer.text
    assert holds_no_script(answer.text)


def test_what_a_candidate_made_the_judge_say_is_text(server, mallory):
    path = mallory.hand_in(f"raise ValueError({SCRIPT!r})").headers["Location"]
    mallory.verdict(path)

    assert holds_no_script(mallory.get(path).text)


def test_every_part_of_a_verdict_is_text(server, mallory):
    path = mallory.hand_in("x").headers["Location"]
    mallory.verdict(path)
    parts = {"fixture": SCRIPT, "given": SCRIPT, "expected": SCRIPT, "actual": SCRIPT}
    verdict = {
        "outcome": "wrong", "sentence": SCRIPT, "case": SCRIPT, "clauses": {SCRIPT: False}, "box_level": SCRIPT,
        "candidate_sha256": SCRIPT, "key_commitment": SCRIPT, "counterexample": parts,
        "counts": dict.fromkeys(("public_passed", "public_total", "held_back_passed", "held_back_total"), SCRIPT),
    }  # fmt: skip
    with opened(server.database) as db, transaction(db):
        finish(db, int(path.rpartition("/")[2]), verdict, 0)

    page = mallory.get(path).text

    assert page.count("&lt;script&gt;alert") >= 12
    assert holds_no_script(page)


@pytest.mark.parametrize("path", ["/sign-in", "/candidates/new", "/no-such-page", "/join/", "/member/", "/api/cases/"])
def test_what_stands_in_an_address_is_text_or_is_not_shown(ada, path):
    answers = [ada.get(path + SCRIPT), ada.get(path, params={"case": SCRIPT, "q": SCRIPT, "name": SCRIPT})]

    assert all(holds_no_script(answer.text) for answer in answers if "html" in answer.headers.get("content-type", ""))


def test_a_name_that_failed_to_sign_in_is_text(server):
    answer = server.visitor().sign_in(SCRIPT)

    assert answer.status_code == 403
    assert holds_no_script(answer.text)


def test_json_is_never_taken_for_a_page(mallory):
    answer = mallory.get("/api/member/candidates")

    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_that_shows_the_script_itself_is_found():
    assert not holds_no_script(f"<main>{SCRIPT}</main>")
