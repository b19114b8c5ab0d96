"""Every answer says what a browser may do with it, and no page needs more than that."""

from __future__ import annotations

import re

import pytest

from failuremap.site.app.headers import security_headers
from failuremap.site.app.settings import parse_address

INLINE = re.compile(
    r"<script(?![^>]*\bsrc=)(?![^>]*type=\"application/(?:ld\+)?json\")|<style|\bstyle=|\bon\w+=|javascript:"
)
NAMES = {
    "content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy", "permissions-policy",
    "cross-origin-opener-policy", "cross-origin-resource-policy",
}  # fmt: skip
PATHS = [
    "/",
    "/assets/style.css",
    "/sign-in",
    "/account",
    "/no-such-page",
    "/api/cases",
    "/api/no",
    "/health",
    "/join/x",
]


def in_tags(page: str) -> str:
    """Return the tags of a page, without the texts between them."""
    return " ".join(re.findall(r"<[^<>]*>", page))


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_headers(server, path):
    answer = server.visitor().get(path)

    assert set(answer.headers) >= NAMES
    assert "server" not in answer.headers


def test_refusals_have_them_too(server):
    visitor = server.visitor()
    answers = [
        visitor.delete("/"),
        visitor.post("/sign-in", headers={"X-Raw": "1"}),
        visitor.post("/sign-in", content=b"x" * 300_000),
        visitor.get("/", headers={"Host": "evil.example"}),
    ]

    assert [answer.status_code for answer in answers] == [405, 403, 413, 421]
    assert all(set(answer.headers) >= NAMES for answer in answers)


def test_nothing_is_allowed_but_what_is_listed():
    policy = security_headers(parse_address("http://localhost"), runs_python=False)["Content-Security-Policy"]

    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_webassembly_may_be_compiled_by_the_worker_that_runs_scripts_alone(server):
    policies = [
        server.visitor().get(path).headers["Content-Security-Policy"]
        for path in ("/assets/run-worker.js", "/assets/run.js", "/")
    ]

    assert ["wasm-unsafe-eval" in policy for policy in policies] == [True, False, False]


def test_webassembly_needs_one_word_in_the_policy():
    policy = security_headers(parse_address("http://localhost"), runs_python=True)["Content-Security-Policy"]

    assert "script-src 'self' 'wasm-unsafe-eval'; style-src" in policy


def test_over_https_browsers_keep_to_https():
    secure, local = (
        security_headers(parse_address(url), runs_python=False) for url in ("https://a.example", "http://localhost")
    )

    assert secure["Strict-Transport-Security"] == "max-age=31536000"
    assert "Strict-Transport-Security" not in local


def test_no_page_has_a_script_or_a_style_in_it_that_the_policy_would_stop(server, ada):
    paths = [
        "/",
        "/access",
        "/sign-in",
        server.invite("Inline"),
        "/no-such-page",
        "/account",
        "/candidates/new?case=FM-001-1",
    ]
    paths += [f"/member/mechanism/{slug}/" for slug in ("replica-means-ignore-counts", "partials-averaged")]

    found = {path: INLINE.findall(in_tags(ada.get(path).text)) for path in paths}

    assert [path for path in paths if found[path]] == []


@pytest.mark.parametrize("planted", ["<script>x()</script>", '<p style="color: red">', "<body onload=x()>", "<style>"])
def test_a_planted_script_or_style_is_found(planted):
    assert INLINE.search(in_tags(planted))


@pytest.mark.parametrize(
    "path", ["/account", "/sign-in", "/access", "/member/", "/candidates/new?case=FM-001-1", "/join/x"]
)
def test_nobody_keeps_a_copy_of_what_members_see(ada, path):
    assert "no-store" in ada.get(path).headers["Cache-Control"]
