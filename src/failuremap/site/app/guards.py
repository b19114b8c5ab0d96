"""What is asked of every request before it is answered: the right host, the same origin, a small body in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from failuremap.site.app.settings import Address

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_BODY_BYTES = 256 * 1024
"""A candidate of 64 KiB, as a form or as JSON may have to write it."""

Refuse = Callable[[str, int, str], Response]
"""Path, status and message -> the refusal."""


class SameSite:
    """Answers requests for its own host, and lets only its own pages change something."""

    def __init__(self, app: ASGIApp, address: Address, refuse: Refuse) -> None:
        self._app = app
        self._address = address
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or refuses it."""
        if scope["type"] != "http" or scope["path"] == "/health":  # a balancer asks by the machine's address
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host not in self._address.hosts:
            message = f"This site is at {self._address}; it answers no requests for another host."
            await self._refuse(scope["path"], 421, message)(scope, receive, send)
        elif scope["path"].endswith("\n"):  # which the pattern of a route does not see
            await self._refuse(scope["path"], 404, "There is no such address.")(scope, receive, send)
        elif scope["method"] not in SAFE_METHODS and (problem := self._foreign(headers, host)):
            await self._refuse(scope["path"], 403, problem)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _foreign(self, headers: Headers, host: str) -> str:
        """Says why a request that changes something is not one of our pages; "" where it is."""
        sites, origins = set(headers.getlist("sec-fetch-site")), set(headers.getlist("origin"))
        if not sites and not origins:
            return f"This request says not from where it comes; a program sends the header Origin: {self._address}"
        if not sites <= {"same-origin"} or not origins <= {f"{self._address.scheme}://{host}"}:
            return "This request comes from another site, or from no page at all. Nothing was changed."
        return ""


class _TooLarge(Exception):
    """A body is longer than any that is wanted."""


class _TwoLengths(Exception):
    """A body says in two ways where it ends: a proxy may believe one, and this site the other."""


class BoundedBody:
    """Takes a body of at most so many bytes, which has come within so many seconds."""

    def __init__(self, app: ASGIApp, timeout_s: float, refuse: Refuse) -> None:
        self._app = app
        self._timeout_s = timeout_s
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or refuses its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._read(scope, receive), self._timeout_s)
        except _TooLarge:
            await self._end(scope, receive, send, 413, f"A request has at most {MAX_BODY_BYTES} bytes.")
        except _TwoLengths:
            await self._end(scope, receive, send, 400, "A request has Content-Length or Transfer-Encoding, not both.")
        except TimeoutError:
            await self._end(scope, receive, send, 408, f"The request was not complete within {self._timeout_s:g} s.")
        else:
            if body is not None:
                await self._app(scope, _replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Returns the whole body; None where its sender has gone."""
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            raise _TwoLengths
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > MAX_BODY_BYTES:
            raise _TooLarge
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                raise _TooLarge
            if not message.get("more_body"):
                return bytes(body)

    async def _end(self, scope: Scope, receive: Receive, send: Send, status: int, message: str) -> None:
        answer = self._refuse(scope["path"], status, message)
        answer.headers["Connection"] = "close"  # the rest of the body is not read
        await answer(scope, receive, send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Returns a channel that gives a body which was read already, and then what comes."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay
