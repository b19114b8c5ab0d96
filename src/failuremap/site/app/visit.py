"""One request as the member area sees it: from where, by whom, with which fields; answered in a thread of its own."""

from __future__ import annotations

import functools
import ipaddress
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from failuremap.site.app import sessions
from failuremap.site.app.database import opened
from failuremap.site.app.library import Site
from failuremap.site.app.responses import MACHINE_PATHS, refusal
from failuremap.site.app.sessions import Session
from failuremap.site.app.settings import Settings

_MAX_FIELDS = 8
_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})


@dataclass(frozen=True)
class Visit:
    """One request.

    Attributes:
        site: What all requests share.
        request: The request itself.
        db: The database, for the time of this request.
        fields: What a form has; empty where there is none.
        body: The bytes of what is no form.
        now: When it came, in seconds since 1970.
    """

    site: Site
    request: Request
    db: sqlite3.Connection
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    now: int = field(default_factory=lambda: int(time.time()))

    @property
    def settings(self) -> Settings:
        """The settings of the site."""
        return self.site.settings

    @property
    def address(self) -> str:
        """From where it came."""
        return address_of(self.request.scope, self.settings)

    @functools.cached_property
    def session(self) -> Session | None:
        """The session of its cookie; None for a visitor."""
        secret = self.request.cookies.get(sessions.cookie_name(self.settings), "")
        return sessions.find(self.db, secret, self.settings, self.now) if secret else None

    def parameter(self, name: str) -> str:
        """Returns a part of the path."""
        return str(self.request.path_params[name])

    def refuse(self, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
        """Says no, in the form that the asker reads."""
        return refusal(self.site, self.request.url.path, status, message, headers)


Action = Callable[[Visit], Response]
MemberAction = Callable[[Visit, Session], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint(action: Action) -> Endpoint:
    """Makes a route's endpoint of an action: the body is read first, the database is open while it acts."""

    @functools.wraps(action)
    async def answer(request: Request) -> Response:
        site: Site = request.app.state.site
        is_form = _kind_of(request) in _FORMS
        fields = await _fields(request) if is_form else {}
        body = b"" if is_form else await request.body()
        return await run_in_threadpool(_act, action, site, request, fields, body)

    return answer


def for_members(action: MemberAction) -> Endpoint:
    """Makes an endpoint that answers members only: whatever a visitor asks for, the answer is the same."""

    @functools.wraps(action)
    def guarded(visit: Visit) -> Response:
        if visit.session is not None:
            return action(visit, visit.session)
        if visit.request.url.path.startswith(MACHINE_PATHS):
            return visit.refuse(401, "This is for members. Sign in, and send the cookie of the session.")
        return RedirectResponse("/sign-in", 303, {"Cache-Control": "no-store"})

    return endpoint(guarded)


def by_method(**endpoints: Endpoint) -> Endpoint:
    """Makes one endpoint of several, by the method that they answer; so that a refusal names all methods."""

    async def answer(request: Request) -> Response:
        chosen = endpoints["get" if request.method == "HEAD" else request.method.lower()]
        request.scope["endpoint"] = chosen  # by whose name the log knows the request
        return await chosen(request)

    return answer


def _act(action: Action, site: Site, request: Request, fields: Mapping[str, str], body: bytes) -> Response:
    with opened(site.settings.database) as db:
        return action(Visit(site, request, db, fields, body))


def _kind_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _fields(request: Request) -> dict[str, str]:
    """Returns the fields of a form, a file as its text; of a field that is there twice, the last."""
    async with request.form(max_files=1, max_fields=_MAX_FIELDS) as form:
        return {name: await _text(value) for name, value in form.items()}


async def _text(value: str | UploadFile) -> str:
    if isinstance(value, str):
        return value
    try:
        return (await value.read()).decode()
    except UnicodeDecodeError as error:
        raise HTTPException(422, "The file is not UTF-8; save it as UTF-8 and hand it in again.") from error


def address_of(scope: Scope, settings: Settings) -> str:
    """Returns from where a request came: what a trusted proxy says of it, or the other end of the connection."""
    peer = scope["client"][0] if scope.get("client") else ""
    if not _is_trusted(peer, settings):
        return peer
    said = Headers(scope=scope).getlist("x-forwarded-for")
    hops = [hop.strip() for hop in ",".join(said).split(",") if hop.strip()]
    strangers = [hop for hop in reversed(hops) if not _is_trusted(hop, settings)]
    return _address(strangers[0]) if strangers else peer


def _is_trusted(address: str, settings: Settings) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in settings.trusted_proxies)


def _address(text: str) -> str:
    """An address, or "" where a proxy passes on something else."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
