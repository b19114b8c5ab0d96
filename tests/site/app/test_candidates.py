"""A member hands in candidates, and the judge answers; each member sees their own."""

from __future__ import annotations

import pytest

from failuremap.score.verdict import Verdict
from failuremap.site.app import members, submissions
from failuremap.site.app.database import opened, transaction
from failuremap.site.app.worker import judge_next
from served import CASE

NOW = 1_800_000_000


@pytest.fixture(scope="module")
def repair(ada) -> str:
    """The repair of the case, as members see it."""
    script = ada.get(f"/api/member/cases/{CASE}").json()["implementations"]["fixed"]["source"]
    return script[script.index("def solve") : script.index("def check")]


def test_a_repair_is_accepted_in_a_sound_box(ada, repair):
    path = ada.hand_in(repair, note="my first").headers["Location"]

    verdict = ada.verdict(path)

    assert verdict["outcome"] == "accepted", verdict
    assert verdict["box_level"] in submissions.SOUND_LEVELS
    assert verdict["key"] is None
    page = ada.get(path).text
    assert f"Candidate {path.rpartition('/')[2]}: accepted" in page
    assert "my first" in ada.get("/account").text


def test_what_is_no_repair_is_not(ada):
    path = ada.hand_in("def solve(rows):\n    return [0.0]\n").headers["Location"]

    assert ada.verdict(path)["outcome"] == "wrong"
    assert "✗ broken" in ada.get(path).text


def test_the_server_does_not_run_what_is_handed_in(server, ada):
    trap = f"open({str(server.folder / 'trap')!r}, 'w')\ndef solve(rows): return []\n"

    verdict = ada.verdict(ada.hand_in(trap).headers["Location"])

    assert verdict["outcome"] != "accepted"
    assert not (server.folder / "trap").exists()


def test_a_member_sees_no_candidate_of_another(server, ada, grace):
    number = int(ada.hand_in("secret = 1").headers["Location"].rpartition("/")[2])
    unknown = 10**6

    pages = {told(grace.get(f"/candidates/{one}")) for one in (number, unknown, 0, -1, "x", "9" * 30)}
    records = {told(grace.get(f"/api/member/candidates/{one}")) for one in (number, unknown, "9" * 30)}

    assert pages.pop()[0] == records.pop()[0] == 404
    assert (len(pages), len(records)) == (0, 0)
    assert "secret = 1" not in grace.get("/account").text
    assert server.visitor().get(f"/candidates/{number}").status_code == 303


def told(answer) -> tuple[int, str]:
    """Return status and text of an answer."""
    return answer.status_code, answer.text


@pytest.mark.parametrize("case", ["FM-999-1", "FM-033-1", "", "../x"])
def test_a_candidate_for_an_unknown_case_is_refused_as_one_for_a_sealed_case(ada, case):
    answer = ada.hand_in("x", case=case)

    assert answer.status_code == 404
    assert f"{case[:40]!r} is no case of the catalogue" in answer.text.replace("&#39;", "'")


@pytest.fixture
def db(database):
    """A database with one member, number 1."""
    with opened(database) as db:
        with transaction(db):
            members.take_in(db, "Ada", None, NOW)
        yield db


def handed_in(db, source="x", at=NOW):
    """Hand in a candidate of member 1; return its number."""
    with transaction(db):
        return submissions.hand_in(db, 1, CASE, source, "", at)


def verdict_of(outcome):
    """Return what a judge says."""
    return Verdict(outcome=outcome, sentence="So it is.", case=CASE).model_dump(mode="json")


def test_the_first_that_came_is_judged_first(db):
    for source in "abc":
        handed_in(db, source)
    judged = []

    def judge(source, _case):
        judged.append(source)
        return verdict_of("wrong")

    assert [judge_next(db, judge) for _ in range(4)] == [True, True, True, False]
    assert judged == ["a", "b", "c"]


def test_an_error_of_the_judge_is_no_verdict_on_the_candidate(db):
    number = handed_in(db)

    judge_next(db, lambda _source, _case: 1 / 0)

    assert submissions.one_of_member(db, 1, number).verdict["outcome"] == "judge-error"


def test_a_judge_that_is_stopped_puts_the_candidate_back(db):
    number = handed_in(db)

    def stopped(_source, _case):
        raise KeyboardInterrupt

    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            judge_next(db, stopped)

    found = submissions.one_of_member(db, 1, number)
    assert (found.state, found.tries) == ("queued", 0)


def test_a_candidate_that_ends_the_worker_three_times_is_given_up(db):
    number = handed_in(db)
    for _ in range(submissions.MAX_TRIES):
        with transaction(db):
            assert submissions.claim(db).id == number
        with transaction(db):
            submissions.recover(db, NOW)

    found = submissions.one_of_member(db, 1, number)
    assert (found.state, found.verdict["outcome"]) == ("judged", "judge-error")
    assert found.verdict["sentence"] == "The judge failed at this candidate, at try 3 of 3; it was not judged."


def test_what_a_removed_member_handed_in_is_judged_into_nothing(db):
    handed_in(db)

    def judge(_source, _case):
        with transaction(db):
            members.remove(db, "Ada")
        return verdict_of("wrong")

    assert judge_next(db, judge)
    assert db.execute("SELECT count(*) FROM submissions").fetchone()[0] == 0


def test_a_member_hands_in_so_many_a_day_and_no_more(db):
    for n in range(3):
        assert submissions.wait_s(db, 1, 3, NOW + n) == 0
        handed_in(db, at=NOW + n)

    assert submissions.wait_s(db, 1, 3, NOW + 10) == submissions.DAY_S - 10
    assert submissions.wait_s(db, 1, 3, NOW + submissions.DAY_S) == 0
    assert submissions.wait_s(db, 2, 3, NOW + 10) == 0
    assert submissions.wait_s(db, 2, 0, NOW) == submissions.DAY_S


def test_a_machine_without_a_sound_box_takes_no_candidate(server, grace):
    with opened(server.database) as db:
        sound = submissions.level_of(db)
        submissions.say_level(db, "none", NOW)
        try:
            answer = grace.hand_in("x = 1")
        finally:
            submissions.say_level(db, sound, NOW)

    assert answer.status_code == 503
    assert "No candidate is judged now: this machine has no box that is closed enough" in answer.text
    assert grace.hand_in("x = 1").status_code == 303
