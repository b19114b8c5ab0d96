"""One line in the log for each request: what was asked by the name of its route, never by its path."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from failuremap.site.app.logs import log, log_exception
from failuremap.site.app.settings import Settings
from failuremap.site.app.visit import address_of


class AccessLog:
    """Writes down each request when it is answered."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        begun = time.monotonic()

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            log_exception("error", error, route=_route(scope))
            raise
        finally:
            log(
                "request",
                method=scope["method"] if scope["method"].isalpha() and len(scope["method"]) < 10 else "?",
                route=_route(scope),
                status=status,
                ms=round(1000 * (time.monotonic() - begun)),
                address=address_of(scope, self._settings),
            )


def _route(scope: Scope) -> str:
    """The name of the route; a path may hold an invitation, also one that was mistyped."""
    endpoint = scope.get("endpoint")
    return str(getattr(endpoint, "__name__", "none")) if endpoint else "none"
