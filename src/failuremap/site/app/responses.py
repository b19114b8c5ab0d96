"""Answers: a page, JSON, a document with its ETag, a refusal in the form that the asker reads."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Receive, Scope, Send

from failuremap.site.app.library import Document, Site
from failuremap.site.app.settings import Address
from failuremap.site.frame import environment

MACHINE_PATHS = ("/api/", "/passkeys/", "/health")
"""Where programs ask, and get JSON also where they are refused."""
_NO_STORE = {"Cache-Control": "no-store"}
_PIECE_BYTES = 64 * 1024
_environment = environment.overlay()


def page(site: Site, template: str, status: int = 200, **names: Any) -> HTMLResponse:
    """Returns a page of the member area; nobody keeps a copy of it."""
    text = _environment.get_template(f"app/{template}").render(
        content=site.libraries.open.content,
        path="",
        link=_absolute,
        passkeys=passkeys_are_offered(site.settings.address),
        **names,
    )
    return HTMLResponse(text, status, _NO_STORE)


def _absolute(target: str) -> str:
    """The link to a file of the site, from wherever a page of the member area stands."""
    return "/" + target.removesuffix("index.html")


def moment(seconds: int) -> str:
    """Returns a time as people read it.

    Example:
        >>> moment(0)
        '1970-01-01 00:00 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


_environment.filters = {**environment.filters, "moment": moment}


def passkeys_are_offered(address: Address) -> bool:
    """True where browsers make passkeys for a site of this name, which is no bare address, and the checks are there."""
    is_bare = address.host.replace(".", "").isdecimal() or ":" in address.host
    return not is_bare and importlib.util.find_spec("webauthn") is not None


def data(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    """Returns JSON that nobody keeps a copy of."""
    return JSONResponse(value, status, {**_NO_STORE, **(headers or {})})


def refusal(site: Site, path: str, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """Says no: as JSON where programs ask, otherwise as a page."""
    if path.startswith(MACHINE_PATHS):
        return data({"status": status, "message": message}, status, headers)
    answer = page(site, "refusal.html", status, message=message)
    answer.headers.update(headers or {})
    return answer


class _InPieces(Response):
    """An answer sent a piece at a time: whoever reads slowly has one piece copied for them, and not the whole."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        del scope, receive
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body), _PIECE_BYTES):
            piece = bytes(self.body[start : start + _PIECE_BYTES])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def document(request: Request, found: Document, cache: str) -> Response:
    """Returns a document, or 304 where the asker has exactly these bytes.

    Args:
        request: What was asked.
        found: The document.
        cache: Who may keep it, as Cache-Control says it.
    """
    headers = {"ETag": found.etag, "Cache-Control": cache}
    if _has(request.headers.get("if-none-match", ""), found.etag):
        return Response(status_code=304, headers=headers)
    return _InPieces(found.body, media_type=None, headers={**headers, "Content-Type": found.media_type})


def _has(if_none_match: str, etag: str) -> bool:
    known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return etag in known or "*" in known
