"""An invitation lets one person in, once, until it expires; nobody learns from it what it was."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from failuremap.errors import InvalidArgument
from failuremap.site.app import members
from failuremap.site.app.database import opened, transaction
from failuremap.site.app.invitations import accept, invite, invited
from served import PASSWORD

NOW = 1_800_000_000


def test_an_invitation_lets_in_once(server):
    link, first, second = server.invite("Once"), server.visitor(), server.visitor()

    statuses = [one.post(link, data={"password": PASSWORD}).status_code for one in (first, second)]

    assert statuses == [303, 404]
    assert first.get("/account").status_code == 200
    assert second.get("/account").status_code == 303


def test_of_many_who_use_an_invitation_at_once_one_gets_in(server):
    link = server.invite("Race")
    visitors = [server.visitor() for _ in range(3)]

    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda one: one.post(link, data={"password": PASSWORD}), visitors))

    assert sorted(answer.status_code for answer in answers) == [303, 404, 404]


def race(database, taking, count=12):
    """Return how many of some threads get in that use one invitation at the same moment."""
    with opened(database) as db:
        secret = invite(db, "Race", 1, NOW)
    together, inside = threading.Barrier(count), []

    def one():
        with opened(database) as db:
            together.wait()
            inside.append(taking(db, secret))

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(map(bool, inside))


def test_one_of_twelve_threads_gets_in(database):
    def taking(db, secret):
        with transaction(db):
            return accept(db, secret, None, NOW)

    assert race(database, taking) == 1


def test_the_race_is_lost_by_a_check_outside_of_the_transaction(database):
    def careless(db, secret):
        if (name := invited(db, secret, NOW)) is None:
            return None
        time.sleep(0.05)
        with transaction(db):
            db.execute("UPDATE invitations SET used = ?", (NOW,))
            return members.take_in(db, name, None, NOW)

    assert race(database, careless) > 1


def test_an_invitation_expires(database):
    with opened(database) as db:
        secret = invite(db, "Late", 1, NOW)

        assert invited(db, secret, NOW + 86_399) == "Late"
        assert invited(db, secret, NOW + 86_400) is None
        with transaction(db):
            assert accept(db, secret, None, NOW + 86_400) is None


def test_a_later_invitation_voids_the_earlier_one_of_the_same_name(database):
    with opened(database) as db:
        first, second = invite(db, "Ada", 1, NOW), invite(db, "ADA", 1, NOW)

        assert [invited(db, secret, NOW) for secret in (first, second)] == [None, "ADA"]


def test_unknown_used_and_mistyped_invitations_are_told_apart_by_nobody(server):
    used = server.invite("Used")
    server.visitor().post(used, data={"password": PASSWORD})
    void = server.invite("Void")
    server.invite("Void")
    paths = [used, void, f"/join/{'A' * 43}", "/join/%00", "/join/x%F0%9F%98%80"]

    answers = {(answer.status_code, answer.text) for answer in (server.visitor().get(path) for path in paths)}

    assert len(answers) == 1
    assert "was used, or has expired" in answers.pop()[1]


def test_the_database_holds_no_invitation_that_could_be_used(server):
    secret = server.invite("Stored").rpartition("/")[2]

    stored = b"".join(path.read_bytes() for path in server.folder.glob("site.sqlite3*"))

    assert b"Stored" in stored
    assert secret.encode() not in stored


def test_an_invitation_of_a_member_sets_another_password_and_ends_the_sessions(server):
    old = server.member("Forgetful")
    new = server.visitor()

    new.post(server.invite("forgetful"), data={"password": "another password"})

    assert old.get("/account").status_code == 303
    assert new.get("/account").status_code == 200
    assert server.visitor().sign_in("Forgetful").status_code == 403


def test_a_short_password_uses_no_invitation(server):
    link, visitor = server.invite("Short"), server.visitor()

    answer = visitor.post(link, data={"password": "eleven sign"})

    assert answer.status_code == 422
    assert "A password has 12 to 1024 characters; this one has 11." in answer.text
    assert "eleven sign" not in answer.text
    assert visitor.post(link, data={"password": "twelve signs"}).status_code == 303


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\u202eb", "x" * 65])
def test_a_name_that_can_not_be_shown_is_refused(database, name):
    with opened(database) as db, pytest.raises(InvalidArgument, match="expected 1 to 64 signs that can be seen"):
        invite(db, name, 1, NOW)
