"""Puts the site together: the routes, and around them what is asked of every request and said with every answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from failuremap import __version__
from failuremap.site.app import account, api, candidates, documents, passkeys, submissions
from failuremap.site.app.access_log import AccessLog
from failuremap.site.app.guards import BoundedBody, SameSite
from failuremap.site.app.headers import SecurityHeaders
from failuremap.site.app.library import Site
from failuremap.site.app.logs import log_exception
from failuremap.site.app.responses import data, refusal
from failuremap.site.app.visit import Visit, endpoint

_MESSAGES = {405: "This address is not asked in this way.", 400: "This request can't be read."}


def application(site: Site, worker_since: Callable[[], int | None]) -> ASGIApp:
    """Returns the site as an ASGI application.

    Args:
        site: The settings, and what there is to show.
        worker_since: Says when the process that judges was started, in seconds since 1970; None where none is running.
    """

    def health(visit: Visit) -> Response:
        """Says whether the site does what it should: the database answers, the worker runs and could write to it."""
        since = worker_since()
        well = since is not None and submissions.judging_since(visit.db) >= since
        judging = submissions.level_of(visit.db)
        facts = {
            "ok": well,
            "version": __version__,
            "worker": well,
            "box": judging,
            "queue": submissions.queue_length(visit.db),
        }
        return data(facts, 200 if well else 503)

    refuse = partial(refusal, site)
    app = Starlette(
        routes=[
            Route("/health", endpoint(health)),
            *account.ROUTES, *passkeys.routes(site.settings.address),
            *candidates.ROUTES, *api.ROUTES, *documents.ROUTES,
        ],
        middleware=[
            Middleware(AccessLog, settings=site.settings),
            Middleware(BoundedBody, timeout_s=site.settings.body_timeout_s, refuse=refuse),
            Middleware(SameSite, address=site.settings.address, refuse=refuse),
        ],
        exception_handlers={HTTPException: _refused, sqlite3.Error: _without_database, Exception: _failed},
    )  # fmt: skip
    app.router.redirect_slashes = False
    app.state.site = site
    return SecurityHeaders(app, site.settings.address)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    site: Site = request.app.state.site
    message = error.detail if error.status_code == 422 else _MESSAGES.get(error.status_code, documents.NOT_FOUND)
    return refusal(site, request.url.path, error.status_code, message, dict(error.headers or {}))


def _without_database(request: Request, error: Exception) -> Response:
    """The disk is full, or the file is damaged or locked: the pages of the catalogue are served all the same."""
    site: Site = request.app.state.site
    log_exception("database failed", error, reason=getattr(error, "sqlite_errorname", ""))
    message = "The site can't use its database now. Nothing was changed; try again later."
    return refusal(site, request.url.path, 503, message)


def _failed(request: Request, _error: Exception) -> Response:
    site: Site = request.app.state.site
    return refusal(site, request.url.path, 500, "This is our fault, and in our log. Nothing was changed.")
