"""The site is ended in every way, and what it acknowledged is there when it is started again."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest

from failuremap.site.app import submissions
from failuremap.site.app.database import opened
from served import CASE, PASSWORD, Server

SLOW = "def solve(rows):\n    while True:\n        pass\n"
WRONG = "def solve(rows):\n    return [0.0]\n"


@pytest.fixture
def own(tmp_path):
    """A site of this test's own, of one mechanism; it may be ended and started again."""
    site = Server(tmp_path, only=("partials-averaged", "replica-means-ignore-counts")).start()
    yield site
    if site.process.poll() is None:
        site.stop()


def states(site: Server) -> dict[str, str]:
    """Return source -> state of all candidates."""
    with opened(site.database) as db:
        return {row["source"]: row["state"] for row in db.execute("SELECT source, state FROM submissions")}


def wait_for(condition, within_s: float = 60) -> None:
    """Return when a condition holds."""
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
def test_kill_9_loses_no_candidate_that_was_acknowledged(own):
    member = own.member("Ada")
    member.hand_in(SLOW)
    wait_for(lambda: "running" in states(own).values())
    acknowledged = []

    def hand_in_until_the_end():
        for n in range(1000):
            try:
                if member.hand_in(f"# {n}\n{WRONG}").status_code == 303:
                    acknowledged.append(f"# {n}\n{WRONG}")
            except httpx.TransportError:
                return

    writer = threading.Thread(target=hand_in_until_the_end)
    writer.start()
    wait_for(lambda: len(acknowledged) >= 5)
    own.stop(signal.SIGKILL)
    writer.join()

    assert set(states(own)) >= {SLOW, *acknowledged}
    own.start()
    assert member.get("/account").status_code == 200
    wait_for(lambda: set(states(own).values()) == {"judged"}, 120)
    outcomes = {one["verdict"]["outcome"] for one in member.get("/api/member/candidates").json()["candidates"]}
    assert outcomes == {"timeout", "wrong"}


@pytest.mark.slow
def test_kill_9_during_sign_ups_loses_no_member_that_was_acknowledged(own):
    invited = {f"Member {n}": own.invite(f"Member {n}") for n in range(8)}
    answered = {}

    def join(name):
        visitor = own.visitor()
        try:
            answered[name] = visitor.post(invited[name], data={"password": PASSWORD}).status_code, visitor
        except httpx.TransportError:
            answered[name] = 0, visitor

    threads = [threading.Thread(target=join, args=[name]) for name in invited]
    for thread in threads:
        thread.start()
    wait_for(lambda: any(status == 303 for status, _ in list(answered.values())))
    own.stop(signal.SIGKILL)
    for thread in threads:
        thread.join()
    own.start()

    joined = [visitor for status, visitor in answered.values() if status == 303]
    assert joined
    assert [visitor.get("/account").status_code for visitor in joined] == [200] * len(joined)
    known = own.run("member", "list").stdout
    for name, (status, visitor) in answered.items():
        # Who got no answer may be in or not, but never half: either the link still works, or its name is a member.
        link = visitor.get(invited[name]).status_code
        assert (link == 404) == (name in known)
        assert status == 303 or link in {200, 404}
    with closing(sqlite3.connect(own.database)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.slow
def test_a_stopped_site_puts_back_what_it_was_judging_and_ends_its_worker(own):
    member = own.member("Ada")
    member.hand_in(SLOW)
    wait_for(lambda: "running" in states(own).values())
    member.hand_in(WRONG)

    code = own.stop(signal.SIGTERM)

    assert code == 0
    assert states(own) == {SLOW: "queued", WRONG: "queued"}
    with opened(own.database) as db:
        assert db.execute("SELECT sum(tries) FROM submissions").fetchone()[0] == 0
    assert [line["event"] for line in lines(own)][-2:] == ["worker stopped", "stopped"]


@pytest.mark.slow
def test_a_stop_lets_requests_end(own):
    visitor, link = own.visitor(), own.invite("Ada")

    def is_counted() -> bool:
        """Say whether the request has begun: it counts itself before it makes the hash."""
        with opened(own.database) as db:
            return db.execute("SELECT count(*) FROM limits").fetchone()[0] > 0

    with ThreadPoolExecutor(1) as threads:
        joining = threads.submit(lambda: visitor.post(link, data={"password": PASSWORD}))
        wait_for(is_counted)
        own.stop(signal.SIGTERM)

    assert joining.result().status_code == 303
    assert "Ada" in own.run("member", "list").stdout


@pytest.mark.slow
def test_a_worker_that_dies_is_started_again_and_no_candidate_is_lost(own):
    member = own.member("Ada")
    path = member.hand_in(WRONG).headers["Location"]
    member.verdict(path)
    started = own.log.read_text().count("worker ready")
    (worker,) = workers_of(own)

    os.kill(worker, signal.SIGKILL)
    later = member.hand_in(WRONG).headers["Location"]

    assert member.verdict(later)["outcome"] == "wrong"
    assert own.log.read_text().count("worker ready") == started + 1


def workers_of(site: Server) -> list[int]:
    """Return the process ids of a site's workers."""
    pids = []
    for path in os.scandir("/proc"):
        if path.name.isdigit():
            try:
                with open(f"{path.path}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if b"failuremap.site.app.worker" in words and str(site.database).encode() in words:
                pids.append(int(path.name))
    return pids


@pytest.mark.slow
def test_no_worker_outlives_a_killed_site(own):
    assert len(workers_of(own)) == 1

    own.stop(signal.SIGKILL)

    wait_for(lambda: workers_of(own) == [])


@pytest.mark.slow
def test_two_hundred_readers_at_once_get_every_page(own):
    paths = [
        "/",
        "/mechanism/",
        "/case/FM-001-1/",
        "/api/cases",
        "/assets/style.css",
        "/sign-in",
        "/access",
        "/feed.atom",
    ]

    def read(n: int) -> list[int]:
        with httpx.Client(base_url=own.url, timeout=120) as reader:
            return [reader.get(path).status_code for path in paths]

    with ThreadPoolExecutor(200) as readers:
        statuses = [status for one in readers.map(read, range(200)) for status in one]

    assert statuses == [200] * 1600
    assert "error" not in {line["event"] for line in lines(own)}


@pytest.mark.slow
def test_behind_a_proxy_that_speaks_tls_the_cookie_is_tied_to_the_host_and_to_https(tmp_path):
    url = "https://maps.example.org"
    site = Server(tmp_path, ("--public-url", url), only=("partials-averaged",)).start()
    try:
        visitor = site.visitor()
        visitor.headers.update({"Host": "maps.example.org", "Origin": url})
        answer = visitor.post(site.invite("Ada"), data={"password": PASSWORD})
        local = site.visitor().post(site.invite("Eve"), data={"password": PASSWORD})
    finally:
        site.stop()

    assert (answer.status_code, local.status_code) == (303, 421)
    cookie, *parts = answer.headers["Set-Cookie"].split("; ")
    assert cookie.startswith("__Host-fm=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=lax"} <= set(parts)
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def lines(site: Server) -> list[dict]:
    """Return the log, line by line."""
    return [json.loads(line) for line in site.log.read_text().splitlines()]


def test_the_log_is_json_and_holds_no_secret(server, grace):
    link = server.invite("Logged")
    visitor = server.visitor()
    visitor.post(link, data={"password": PASSWORD})
    visitor.sign_in("Logged", "a wrong password, of which nobody should read")
    visitor.get(f"{link}x")
    visitor.get("/sign-in", params={"token": "query-secret"})
    visitor.get("/path-secret", headers={"Authorization": "header-secret", "Referer": "https://a/referer-secret"})
    visitor.post("/api/member/candidates", json={"case": CASE, "source": "source_secret = 1", "note": "note-secret"})
    grace.hand_in("raise ValueError('source_secret')", note="note-secret")
    secrets = [PASSWORD, link.rpartition("/")[2], visitor.cookies["fm-local"], grace.cookies["fm-local"]]
    secrets += ["wrong password", "secret"]

    text = server.log.read_text()

    assert {"request", "serving", "worker ready"} <= {line["event"] for line in lines(server)}
    assert {"join", "sign_in", "hand_in"} <= {line.get("route") for line in lines(server)}
    assert [secret for secret in secrets if secret in text] == []


def test_a_second_site_on_the_same_database_is_refused(server):
    second = server.run("serve", "--port", "0")

    assert second.returncode == 2
    assert "is being served by another process; stop that one first." in second.stderr


def test_a_port_that_is_taken_is_named(server, tmp_path):
    second = server.run("serve", "--port", str(server.port), "--database", str(tmp_path / "other.sqlite3"))

    assert second.returncode == 2
    assert f"--host 127.0.0.1 --port {server.port} can't be listened at: Address already in use" in second.stderr


def test_a_worker_says_in_which_box_it_judges(server):
    with opened(server.database) as db:
        assert submissions.level_of(db) in submissions.SOUND_LEVELS
