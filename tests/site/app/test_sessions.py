"""A session is a row: begun anew at every sign-in, ended by its member, by the operator, or by time."""

from __future__ import annotations

import pytest

from failuremap.site.app import members, sessions
from failuremap.site.app.database import opened, transaction
from failuremap.site.app.settings import Settings, parse_address
from served import PASSWORD

NOW = 1_800_000_000
COOKIE = "fm-local"


@pytest.fixture
def settings(database):
    """Settings in which a session lasts 100 s, or 10 s without a request."""
    return Settings(database, parse_address("http://localhost"), idle_s=10, session_s=100)


@pytest.fixture
def secret(database):
    """The cookie of a session that began at NOW."""
    with opened(database) as db, transaction(db):
        return sessions.begin(db, members.take_in(db, "Ada", None, NOW), NOW)


def test_a_cookie_that_was_planted_before_the_sign_in_is_never_a_session(server):
    server.member("Fixed")
    visitor = server.visitor()
    visitor.cookies.set(COOKIE, "planted" * 6)

    visitor.sign_in("Fixed")

    thief = server.visitor()
    thief.cookies.set(COOKIE, "planted" * 6)
    assert thief.get("/account").status_code == 303
    assert visitor.get("/account").status_code == 200


def test_a_sign_in_ends_the_session_that_the_browser_had(server):
    member = server.member("Rotated")
    old = member.cookies[COOKIE]

    member.sign_in("Rotated")

    thief = server.visitor()
    thief.cookies.set(COOKIE, old)
    assert member.cookies[COOKIE] != old
    assert thief.get("/account").status_code == 303


def test_sign_out_ends_the_session_and_not_the_cookie_alone(server):
    member = server.member("Leaves")
    cookie = member.cookies[COOKIE]
    assert member.get("/account").status_code == 200

    assert member.post("/sign-out").status_code == 303

    member.cookies.set(COOKIE, cookie)
    assert member.get("/account").status_code == 303


def test_the_button_of_a_page_signs_out(server):
    member = server.member("Button")

    answer = member.post("/sign-out", content=b"", headers={"Content-Type": "application/x-www-form-urlencoded"})

    assert answer.status_code == 303
    assert member.get("/account").status_code == 303


def test_sign_out_everywhere_ends_all_sessions_of_this_member_and_of_no_other(server, grace):
    here, there = server.member("Everywhere"), server.visitor()
    there.sign_in("Everywhere")

    here.post("/sign-out-everywhere")

    assert [one.get("/account").status_code for one in (here, there, grace)] == [303, 303, 200]


def test_who_is_removed_is_out_at_once(server):
    member = server.member("Removed")

    removed = server.run("member", "remove", "removed")

    assert removed.stdout == "removed 'Removed'\n"
    assert member.get("/account").status_code == 303
    assert server.visitor().sign_in("Removed").status_code == 403
    assert "  removed                Removed  -\n" in server.run("member", "log").stdout


def test_a_session_ends_without_requests(database, settings, secret):
    with opened(database) as db:
        assert sessions.find(db, secret, settings, NOW + 9)
        assert sessions.find(db, secret, settings, NOW + 18)
        assert sessions.find(db, secret, settings, NOW + 28) is None


def test_a_session_ends_also_with_requests(database, settings, secret):
    with opened(database) as db:
        seen = [bool(sessions.find(db, secret, settings, NOW + later)) for later in range(0, 120, 4)]

    assert seen == [True] * 25 + [False] * 5


def test_the_database_holds_no_cookie(server, ada):
    stored = b"".join(path.read_bytes() for path in server.folder.glob("site.sqlite3*"))

    assert b"Ada" in stored
    assert ada.cookies[COOKIE].encode() not in stored
    assert PASSWORD.encode() not in stored


def test_the_cookie_is_for_this_site_alone_and_for_no_script(server):
    answer = server.visitor().post(server.invite("Cookie"), data={"password": PASSWORD})

    parts = set(answer.headers["Set-Cookie"].lower().split("; ")[1:])
    assert parts == {"httponly", "path=/", "samesite=lax", "max-age=2592000"}


def test_over_https_the_cookie_has_the_prefix_that_ties_it_to_the_host(database):
    settings = Settings(database, parse_address("https://maps.example.org"))

    assert sessions.cookie_name(settings) == "__Host-fm"


@pytest.mark.parametrize("cookie", ["", "x", "é", "' OR 1=1 --", "A" * 5000])
def test_a_strange_cookie_is_no_session(server, cookie):
    answer = server.visitor().get("/account", headers={"Cookie": f"{COOKIE}={cookie}".encode()})

    assert answer.status_code == 303
