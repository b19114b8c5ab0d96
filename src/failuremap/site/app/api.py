"""The records as JSON, and for members the same things that the pages do."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from failuremap.catalogue.records.model import Case
from failuremap.site.app import submissions
from failuremap.site.app.candidates import UNKNOWN_CANDIDATE, own_candidate, take
from failuremap.site.app.library import Document, Library, Site
from failuremap.site.app.openapi import description
from failuremap.site.app.responses import data, document, refusal
from failuremap.site.app.sessions import Session
from failuremap.site.app.submissions import Submission
from failuremap.site.app.visit import Visit, by_method, for_members

UNKNOWN_CASE = "There is no such case."
_JSON = "application/json"
_FOR_ALL = "public, max-age=300"


async def cases(request: Request) -> Response:
    """Lists the open cases."""
    return document(request, _listed(_site(request).libraries.open), _FOR_ALL)


async def case(request: Request) -> Response:
    """Sends the open record of a case; one that is held back is as unknown as one that there never was."""
    site = _site(request)
    found = site.libraries.open.cases.get(request.path_params["id"])
    if found is None:
        return refusal(site, request.url.path, 404, UNKNOWN_CASE)
    return document(request, _record(found), _FOR_ALL)


async def contracts(request: Request) -> Response:
    """Lists what may be said of the cases that are held back: their contracts."""
    listed = {"contracts": list(_site(request).libraries.open.content.contracts)}
    return document(request, Document(_encoded(listed), _JSON), _FOR_ALL)


async def openapi(request: Request) -> Response:
    """Sends the description of these addresses."""
    return document(request, Document(_encoded(description(_site(request).settings)), _JSON), _FOR_ALL)


async def unknown(request: Request) -> Response:
    """Says that there is nothing at an address below /api/."""
    return refusal(_site(request), request.url.path, 404, "There is no such address; see /api/openapi.json.")


def member_case(visit: Visit, _session: Session) -> Response:
    """Sends the member form of a case: with the repair, its run, the harness, the salts."""
    found = visit.site.libraries.member.cases.get(visit.parameter("id"))
    if found is None:
        return visit.refuse(404, UNKNOWN_CASE)
    return document(visit.request, _record(found), "private, no-store")


def hand_in(visit: Visit, session: Session) -> Response:
    """Takes a candidate into the queue."""
    asked = _asked(visit.body)
    if asked is None:
        return visit.refuse(422, 'expected a JSON object {"case": text, "source": text, "note": text or absent}.')
    taken = take(visit, session, *asked)
    if not taken.number:
        return visit.refuse(taken.status, taken.problem, {"Retry-After": str(taken.wait_s)} if taken.wait_s else None)
    found = submissions.one_of_member(visit.db, session.member.id, taken.number)
    assert found is not None
    return data(_shown(found), 201, {"Location": f"/api/member/candidates/{found.id}"})


def own_candidates(visit: Visit, session: Session) -> Response:
    """Lists a member's candidates, the newest first."""
    return data({"candidates": [_shown(one) for one in submissions.of_member(visit.db, session.member.id)]})


def candidate(visit: Visit, session: Session) -> Response:
    """Sends one candidate of a member, with its text and its verdict."""
    found = own_candidate(visit, session)
    if found is None:
        return visit.refuse(404, UNKNOWN_CANDIDATE)
    return data({**_shown(found), "source": found.source})


def _asked(body: bytes) -> tuple[str, str, str] | None:
    """Reads case, source and note; None where they are not there as text."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(asked, dict) or not set(asked) <= {"case", "source", "note"}:
        return None
    values = asked.get("case"), asked.get("source"), asked.get("note", "")
    return values if all(isinstance(value, str) for value in values) else None  # type: ignore[return-value]


def _shown(one: Submission) -> dict[str, Any]:
    return {
        "number": one.id, "case": one.case_id, "note": one.note, "state": one.state,
        "handed_in": one.handed_in, "judged": one.judged, "verdict": one.verdict,
    }  # fmt: skip


def _listed(library: Library) -> Document:
    listed = [
        {"id": one.id, "title": one.title, "family": one.family, "variant": one.variant, "modified": one.modified,
         "sha256": one.sha256, "url": f"/api/cases/{one.id}"}
        for one in library.cases.values()
    ]  # fmt: skip
    return Document(_encoded({"cases": listed}), _JSON)


def _record(found: Case) -> Document:
    return Document(found.to_json().encode(), _JSON)


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


ROUTES = [
    Route("/api/openapi.json", openapi),
    Route("/api/cases", cases),
    Route("/api/cases/{id}", case),
    Route("/api/contracts", contracts),
    Route("/api/member/cases/{id}", for_members(member_case)),
    Route(
        "/api/member/candidates",
        by_method(get=for_members(own_candidates), post=for_members(hand_in)),
        methods=["GET", "POST"],
    ),
    Route("/api/member/candidates/{number}", for_members(candidate)),
    Route("/api/{path:path}", unknown),
]
