"""What members hand in: the form, the queue, the verdicts; each member sees their own."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from failuremap.site.app import audit_log, submissions
from failuremap.site.app.database import transaction
from failuremap.site.app.responses import page
from failuremap.site.app.sessions import Session
from failuremap.site.app.visit import Visit, for_members

NOT_JUDGED_HERE = (
    "No candidate is judged now: this machine has no box that is closed enough (box-2 or better). "
    "`failuremap score` judges on a machine of your own."
)
UNKNOWN_CANDIDATE = "There is no such candidate among yours."
_LARGEST_NUMBER = 2**63 - 1


@dataclass(frozen=True)
class HandedIn:
    """What came of handing in a candidate.

    Attributes:
        number: Its number; 0 where it was refused.
        status: The status of the refusal.
        problem: Why it was refused.
        wait_s: When to try again.
    """

    number: int = 0
    status: int = 201
    problem: str = ""
    wait_s: int = 0


def take(visit: Visit, session: Session, case_id: str, source: str, note: str) -> HandedIn:
    """Puts a candidate into the queue, or says why not; once it has a number it is not lost."""
    if case_id not in visit.site.libraries.member.cases:
        problem = (
            f"case={case_id[:40]!r} is no case of the catalogue; expected an id such as FM-001-1. What is held back "
            "takes no candidates here."
        )
        return HandedIn(status=404, problem=problem)
    if problem := problem_of(source, note):
        return HandedIn(status=422, problem=problem)
    with transaction(visit.db):
        if submissions.level_of(visit.db) not in submissions.SOUND_LEVELS:
            return HandedIn(status=503, problem=NOT_JUDGED_HERE)
        a_day = visit.settings.submissions_a_day
        if wait_s := submissions.wait_s(visit.db, session.member.id, a_day, visit.now):
            problem = f"A member hands in at most {a_day} candidates within 24 h. Try again in {-(-wait_s // 60)} min."
            return HandedIn(status=429, problem=problem, wait_s=wait_s)
        number = submissions.hand_in(visit.db, session.member.id, case_id, source, note, visit.now)
        audit_log.write(visit.db, "handed in", session.member.name, visit.address, visit.now)
    return HandedIn(number)


def problem_of(source: str, note: str) -> str:
    """Says what is wrong with a candidate before it is judged; "" where nothing is."""
    try:
        size = len(source.encode())
        note.encode()
    except UnicodeEncodeError:
        return "The candidate or its note has half of a surrogate pair, which is no text."
    if not 1 <= size <= submissions.MAX_SOURCE_BYTES:
        return f"The candidate has {size} bytes; expected 1 to {submissions.MAX_SOURCE_BYTES}."
    if len(note) > submissions.MAX_NOTE:
        return f"The note has {len(note)} signs; expected at most {submissions.MAX_NOTE}."
    return ""


def form(visit: Visit, session: Session) -> Response:
    """Shows the form for a case."""
    case_id = visit.request.query_params.get("case", "")
    if case_id not in visit.site.libraries.member.cases:
        return visit.refuse(404, "There is no such case.")
    return _form(visit, session, case_id, 200, "")


def hand_in(visit: Visit, session: Session) -> Response:
    """Takes a candidate from the form: the text that was pasted, or the file where one was chosen."""
    case_id, note = visit.fields.get("case", ""), visit.fields.get("note", "")
    source = visit.fields.get("file", "") or visit.fields.get("source", "").replace("\r\n", "\n")
    taken = take(visit, session, case_id, source, note)
    if taken.number:
        return RedirectResponse(f"/candidates/{taken.number}", 303, {"Cache-Control": "no-store"})
    if case_id not in visit.site.libraries.member.cases:
        return visit.refuse(taken.status, taken.problem)
    answer = _form(visit, session, case_id, taken.status, taken.problem)
    if taken.wait_s:
        answer.headers["Retry-After"] = str(taken.wait_s)
    return answer


def _form(visit: Visit, session: Session, case_id: str, status: int, message: str) -> Response:
    return page(
        visit.site, "hand-in.html", status,
        member=session.member,
        case=visit.site.libraries.member.cases[case_id],
        message=message,
        source=visit.fields.get("source", ""),
        note=visit.fields.get("note", ""),
        max_bytes=submissions.MAX_SOURCE_BYTES,
        max_note=submissions.MAX_NOTE,
    )  # fmt: skip


def verdict(visit: Visit, session: Session) -> Response:
    """Shows one candidate and what the judge said of it."""
    found = own_candidate(visit, session)
    if found is None:
        return visit.refuse(404, UNKNOWN_CANDIDATE)
    case = visit.site.libraries.member.cases.get(found.case_id)
    waiting = submissions.queue_length(visit.db)
    return page(visit.site, "verdict.html", member=session.member, candidate=found, case=case, waiting=waiting)


def own_candidate(visit: Visit, session: Session) -> submissions.Submission | None:
    """Returns the candidate that the path names; None where it isn't this member's."""
    text = visit.parameter("number")
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    if number > _LARGEST_NUMBER:
        return None
    return submissions.one_of_member(visit.db, session.member.id, number)


ROUTES = [
    Route("/candidates", for_members(hand_in), methods=["POST"]),
    Route("/candidates/new", for_members(form)),
    Route("/candidates/{number}", for_members(verdict)),
]
