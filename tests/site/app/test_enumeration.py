"""Nobody learns who is a member, and nobody guesses a password."""

from __future__ import annotations

import time

import argon2
import pytest

from failuremap.site.app import audit_log, limits, passwords
from failuremap.site.app.database import opened, transaction
from failuremap.site.app.limits import Limit, network_of, take
from failuremap.site.app.members import MAX_NAME, folded
from failuremap.site.app.settings import Settings, parse_address, parse_networks
from failuremap.site.app.visit import address_of
from served import PASSWORD

NOW = 1_800_000_000
THREE = Limit("tried", 3, 60)


def tried(server, name, count):
    """Count some tries for a name, as sign-ins from elsewhere do."""
    with opened(server.database) as db, transaction(db):
        assert not any(take(db, limits.SIGN_IN_AS, name, int(time.time())) for _ in range(count))


def told(answer, name):
    """Return all that an answer tells, with the name that the asker has given taken out."""
    headers = {key: value for key, value in answer.headers.items() if key not in {"date", "content-length"}}
    return answer.status_code, headers, answer.text.replace(name, "NAME")


def test_a_member_and_a_stranger_get_the_same_answer(server, ada):
    answers = [told(server.visitor().sign_in(name, "not the password"), name) for name in ("Ada", "Bob")]

    assert answers[0] == answers[1]
    assert answers[0][0] == 403


def test_the_right_password_is_answered_otherwise(server, ada):
    assert told(server.visitor().sign_in("Ada"), "Ada")[0] == 303


def test_an_unknown_name_costs_the_work_of_a_known_one(monkeypatch):
    asked = []

    class Counting(argon2.PasswordHasher):
        def verify(self, stored, password):
            asked.append(argon2.extract_parameters(stored))
            return super().verify(stored, password)

    stored = passwords.hash_password(PASSWORD)
    passwords._decoy()
    monkeypatch.setattr(passwords, "_hasher", Counting())

    answers = [passwords.is_password(known, PASSWORD) for known in (stored, None)]

    assert answers == [True, False]
    assert asked[0] == asked[1]
    assert asked[0].type is argon2.Type.ID


def test_the_decoy_has_no_password_that_lets_in(monkeypatch):
    assert [passwords.is_password(None, password) for password in ("", "x")] == [False, False]


def test_a_password_is_guessed_ten_times_and_no_more(server):
    server.member("Guessed")
    tried(server, "guessed", 9)

    tenth, last = (server.visitor().sign_in(*guess) for guess in ((" GUESSED", "wrong"), ("Guessed", PASSWORD)))

    assert tenth.status_code == 403
    assert last.status_code == 429
    assert 0 < int(last.headers["Retry-After"]) <= 900
    assert "Tried too often. Try again in 15 min." in last.text


def test_the_limit_of_a_name_that_nobody_has_is_the_same(server):
    tried(server, "nobody", 10)

    assert server.visitor().sign_in("Nobody", PASSWORD).status_code == 429


def test_who_signs_in_has_all_tries_again(server):
    server.member("Clumsy")
    for _ in range(2):
        tried(server, "clumsy", 9)

        assert server.visitor().sign_in("Clumsy").status_code == 303


def test_an_address_has_a_limit_over_all_names(database):
    with opened(database) as db, transaction(db):
        waits = [take(db, THREE, "192.0.2.1", NOW + n) for n in range(5)]

        assert waits == [0, 0, 0, 57, 56]
        assert take(db, THREE, "192.0.2.2", NOW) == 0
        assert take(db, THREE, "192.0.2.1", NOW + 60) == 0


def test_what_was_counted_while_the_clock_was_a_year_ahead_holds_nobody_back(database):
    with opened(database) as db, transaction(db):
        assert [take(db, THREE, "192.0.2.1", NOW + 365 * 86400) for _ in range(4)][-1] > 0

        assert take(db, THREE, "192.0.2.1", NOW) == 0


def test_counts_that_are_over_are_deleted_by_the_next_try_of_anybody(database):
    with opened(database) as db, transaction(db):
        take(db, limits.JOIN_FROM, "192.0.2.1", NOW)
        take(db, limits.JOIN_FROM, "192.0.2.2", NOW + limits.JOIN_FROM.within_s)

        assert db.execute("SELECT count(*) FROM limits").fetchone()[0] == 1


def test_tries_by_names_of_nobody_fill_no_disk_and_those_of_members_stay(database, monkeypatch):
    monkeypatch.setattr(audit_log, "KEPT_OF_NOBODY", 3)
    with opened(database) as db, transaction(db):
        for member in ("Ada", *[""] * 9):
            audit_log.write(db, "sign-in failed", member, "192.0.2.1", NOW)

        assert [member for _, _, member, _ in audit_log.last(db, 99)] == ["", "", "", "Ada"]


def test_the_time_that_a_name_takes_does_not_grow_with_its_length():
    endless = "ada" + "\u0301\u0316" * 2000  # Python sorts such marks by exchanging neighbours

    assert folded(endless) == folded(endless[:1000])
    assert folded("\u0061\u030a" * MAX_NAME) == "\u00e5" * MAX_NAME


def test_a_restart_forgets_no_try(database):
    for _ in range(3):
        with opened(database) as db, transaction(db):
            take(db, THREE, "192.0.2.1", NOW)

    with opened(database) as db, transaction(db):
        assert take(db, THREE, "192.0.2.1", NOW) == 60


def test_the_counts_hold_no_name_that_was_tried(database):
    with opened(database) as db, transaction(db):
        take(db, limits.SIGN_IN_AS, "my password, typed as a name", NOW)

        assert "typed" not in str([tuple(row) for row in db.execute("SELECT * FROM limits")])


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1:aaaa::1", "2001:db8:0:1::/64"),
        ("", "unknown"),
        ("x" * 1000, "unknown"),
    ],
)
def test_an_address_is_counted_by_its_network(address, network):
    assert network_of(address) == network


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", "198.51.100.9", "192.0.2.1"),
        ("127.0.0.1", "198.51.100.9", "198.51.100.9"),
        ("127.0.0.1", "203.0.113.5, 198.51.100.9", "198.51.100.9"),
        ("127.0.0.1", "203.0.113.5, 198.51.100.9, 127.0.0.1", "198.51.100.9"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "<script>", ""),
    ],
)
def test_a_proxy_is_believed_where_it_is_trusted_and_only_its_own_word(database, peer, forwarded, address):
    settings = Settings(database, parse_address("http://localhost"), parse_networks(["127.0.0.1"]))
    scope = {"type": "http", "client": (peer, 1), "headers": [(b"x-forwarded-for", forwarded.encode())]}

    assert address_of(scope, settings) == address
