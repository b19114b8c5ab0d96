"""The records as JSON: the same for everybody, with ETags; the member forms for members; a description that is kept."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from failuremap.catalogue.records.read import case_from_json
from failuremap.site.app.database import opened
from failuremap.site.app.openapi import description
from failuremap.site.app.settings import Settings, parse_address
from served import CASE

SEALED = "FM-033-1"


def test_a_record_is_the_open_form_of_the_case(server):
    record = case_from_json(server.visitor().get(f"/api/cases/{CASE}").text)

    assert (record.id, record.is_member_form) == (CASE, False)


def test_a_member_gets_the_member_form_of_the_same_digest(server, ada):
    record = case_from_json(ada.get(f"/api/member/cases/{CASE}").text)

    assert record.is_member_form
    assert record.sha256 == server.visitor().get(f"/api/cases/{CASE}").json()["sha256"]


def test_every_case_that_is_listed_is_there(server):
    visitor = server.visitor()
    listed = visitor.get("/api/cases").json()["cases"]

    assert len(listed) == 10
    assert all(visitor.get(case["url"]).json()["sha256"] == case["sha256"] for case in listed)


@pytest.mark.parametrize("path", ["/api/cases", f"/api/cases/{CASE}", "/api/contracts", "/api/openapi.json", "/"])
def test_what_was_fetched_once_is_not_sent_again(server, path):
    visitor = server.visitor()
    first = visitor.get(path)
    tag = first.headers["ETag"]

    for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = visitor.get(path, headers={"If-None-Match": sent})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert visitor.get(path, headers={"If-None-Match": '"other"'}).content == first.content
    assert visitor.head(path).headers["ETag"] == tag


def told(answer, name):
    """Return all that an answer tells, without the name that the asker has given."""
    headers = {key: value for key, value in answer.headers.items() if key != "date"}
    return answer.status_code, headers, answer.text.replace(name, "NAME")


@pytest.mark.parametrize(
    "path", ["/api/cases/NAME", "/api/member/cases/NAME", "/case/NAME/", "/case/NAME.json", "/case/NAME.zip"]
)
def test_what_is_sealed_is_as_unknown_as_what_never_was(server, ada, path):
    for client in (server.visitor(), ada):
        for prefix in ("", "/member"):
            answers = [told(client.get(f"{prefix}{path.replace('NAME', name)}"), name) for name in (SEALED, "FM-998-1")]

            assert answers[0] == answers[1]


def test_a_sealed_mechanism_is_as_unknown_as_what_never_was(server, ada):
    names = ("divided-twice", "divided-never")
    for client in (server.visitor(), ada):
        for prefix in ("", "/member"):
            answers = [told(client.get(f"{prefix}/mechanism/{name}/"), name) for name in names]

            assert answers[0] == answers[1]


def test_a_visitor_learns_nothing_from_the_members_addresses(server):
    visitor = server.visitor()
    paths = [f"/api/member/cases/{one}" for one in (CASE, SEALED, "x")] + ["/api/member/candidates/1"]

    answers = {(one.status_code, one.text) for one in map(visitor.get, paths)}

    message = "This is for members. Sign in, and send the cookie of the session."
    assert answers == {(401, f'{{"status":401,"message":"{message}"}}')}


def test_a_candidate_goes_in_by_the_api(ada):
    made = ada.post("/api/member/candidates", json={"case": CASE, "source": "x = 1", "note": "by the API"})

    assert made.status_code == 201
    assert made.json()["state"] == "queued"
    found = ada.get(made.headers["Location"]).json()
    assert (found["source"], found["note"]) == ("x = 1", "by the API")


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {},
        {"case": CASE},
        {"case": CASE, "source": 1},
        {"case": CASE, "source": "x", "more": 1},
        "x",
    ],
)
def test_a_candidate_that_is_none_is_refused_with_the_form_it_should_have(ada, asked):
    answer = ada.post("/api/member/candidates", json=asked)

    assert answer.status_code == 422
    assert answer.json()["message"] == 'expected a JSON object {"case": text, "source": text, "note": text or absent}.'


def test_every_address_of_the_description_is_served(server, ada):
    described = ada.get("/api/openapi.json").json()

    for path in described["paths"]:
        filled = path.replace("{id}", CASE).replace("{number}", "1")
        assert ada.get(filled).status_code in {200, 404}


def test_the_description_names_the_cookie_and_the_address_of_the_site(database):
    described = description(Settings(database, parse_address("https://maps.example.org")))

    assert described["servers"] == [{"url": "https://maps.example.org"}]
    assert described["components"]["securitySchemes"]["session"]["name"] == "__Host-fm"
    assert "#/$defs/" not in json.dumps(described)


def test_health_says_whether_the_site_works(server):
    answer = server.visitor().get("/health", headers={"Host": "10.0.0.7"})

    assert answer.status_code == 200
    assert {"ok": True, "worker": True}.items() <= answer.json().items()
    assert set(answer.json()) == {"ok", "version", "worker", "box", "queue"}


def test_a_worker_that_runs_and_is_not_ready_is_not_well(server):
    with opened(server.database) as db:
        (since,) = db.execute("SELECT since FROM judging").fetchone()
        db.execute("UPDATE judging SET since = 0")
        answer = server.visitor().get("/health")
        db.execute("UPDATE judging SET since = ?", (since,))

    assert answer.status_code == 503
    assert answer.json()["ok"] is answer.json()["worker"] is False
    assert server.visitor().get("/health").status_code == 200


def test_without_its_database_the_site_says_so_and_shows_the_catalogue(server):
    with opened(server.database) as db:
        db.execute("ALTER TABLE limits RENAME TO away")
        answer = server.visitor().sign_in("Ada")
        page = server.visitor().get("/about/")
        db.execute("ALTER TABLE away RENAME TO limits")

    assert answer.status_code == 503
    assert "The site can&#39;t use its database now. Nothing was changed; try again later." in answer.text
    assert page.status_code == 200


def test_the_list_of_candidates_has_no_texts(server, grace):
    number = grace.hand_in("# a long text", note="listed").headers["Location"].rpartition("/")[2]
    listed = grace.get("/api/member/candidates")

    assert "a long text" not in listed.text
    assert grace.get(f"/api/member/candidates/{number}").json()["source"] == "# a long text"


def test_a_worker_without_a_database_says_so_in_one_line_of_the_log(tmp_path):
    (tmp_path / "site.sqlite3").write_text("no database")
    command = [sys.executable, "-m", "failuremap.site.app.worker", str(tmp_path / "site.sqlite3")]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        said = worker.stderr.read()  # while its stdin is open: where that ends, it stops

    assert worker.returncode == 1
    assert json.loads(said)["event"] == "worker failed"
