"""Whatever a parameter holds, it is a value of a query and never a part of one."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from failuremap.site.app import members
from failuremap.site.app.database import opened
from served import CASE, PASSWORD

PAYLOADS = [
    "' OR '1'='1", "'; DROP TABLE members; --", '" OR ""="', "1; DELETE FROM sessions",
    "' UNION SELECT password FROM members --",
    "Ada'--", "\\'; --", "%' OR 1=1 --", "1 OR 1=1", "0x41646121", "'||(SELECT name FROM members)||'", "\x00'",
]  # fmt: skip


def tables(server) -> dict[str, int]:
    """Return how many rows the tables have that no payload should reach."""
    with opened(server.database) as db:
        names = ("members", "sessions", "invitations", "passkeys")
        return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


@pytest.mark.parametrize("payload", PAYLOADS, ids=repr)
def test_no_parameter_reaches_into_a_query(server, ada, grace, payload):
    before = tables(server)
    visitor = server.visitor()

    answers = [
        visitor.sign_in(payload),
        visitor.get(f"/join/{quote(payload)}"),
        visitor.post(f"/join/{quote(payload)}", data={"password": payload}),
        visitor.get("/account", headers={"Cookie": f"fm-local={quote(payload)}"}),
        ada.hand_in("x", case=payload),
        ada.get("/candidates/new", params={"case": payload}),
        ada.get(f"/candidates/{quote(payload)}"),
        ada.get(f"/api/member/candidates/{quote(payload)}"),
        ada.get(f"/api/member/cases/{quote(payload)}"),
        ada.get(f"/api/cases/{quote(payload)}"),
        ada.post("/passkeys/sign-in", json={"credential": {"rawId": payload, "response": {}}}),
        ada.post("/passkeys/registration", json={"invitation": payload}),
    ]

    assert all(300 <= answer.status_code < 500 for answer in answers)
    assert not any("$argon2" in answer.text for answer in answers)
    assert tables(server) == before
    assert ada.get("/account").status_code == 200


@pytest.mark.parametrize("payload", PAYLOADS[:3], ids=repr)
def test_a_candidate_and_its_note_are_kept_as_they_are(ada, payload):
    number = ada.hand_in(f"# {payload}", note=payload).headers["Location"].rpartition("/")[2]

    kept = ada.get(f"/api/member/candidates/{number}").json()
    assert (kept["source"], kept["note"], kept["case"]) == (f"# {payload}", payload, CASE)


def test_a_name_that_is_sql_is_a_name(server):
    name = "Robert'); DROP TABLE members;--"
    server.member(name)

    assert server.visitor().sign_in(name, PASSWORD).status_code == 303


def test_the_payloads_do_work_where_a_query_is_put_together(database):
    with opened(database) as db:
        members.take_in(db, "Ada", "$argon2", 0)
        found = db.execute(f"SELECT name FROM members WHERE folded = '{PAYLOADS[0]}'").fetchall()

        assert len(found) == 1
