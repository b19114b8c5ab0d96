"""The pages of both builds: the open one for everybody, the member one below /member/."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from failuremap.site.app.library import Library, Site
from failuremap.site.app.responses import document, refusal
from failuremap.site.app.sessions import Session
from failuremap.site.app.visit import Visit, for_members

NOT_FOUND = "There is no such page."
_FOR_ALL = "public, max-age=300"
_FOR_ONE = "private, no-store"


async def open_document(request: Request) -> Response:
    """Sends a page or file of the open build; one path is one key of a table, so that no path leads to the disk."""
    site: Site = request.app.state.site
    path = request.path_params["path"]
    found = site.libraries.open.documents.get(path)
    if found is not None:
        return document(request, found, _FOR_ALL)
    if _is_folder(site.libraries.open, path):
        return RedirectResponse(f"/{path}/", 308, {"Cache-Control": _FOR_ALL})
    return refusal(site, request.url.path, 404, NOT_FOUND)


def member_document(visit: Visit, _session: Session) -> Response:
    """Sends a page or file of the member build."""
    path = visit.parameter("path")
    found = visit.site.libraries.member.documents.get(path)
    if found is not None:
        return document(visit.request, found, _FOR_ONE)
    if _is_folder(visit.site.libraries.member, path):
        return RedirectResponse(f"/member/{path}/", 308, {"Cache-Control": _FOR_ONE})
    return visit.refuse(404, NOT_FOUND)


def _is_folder(library: Library, path: str) -> bool:
    return path != "" and f"{path}/" in library.documents


ROUTES = [
    Route("/member/{path:path}", for_members(member_document)),
    Route("/{path:path}", open_document),
]
