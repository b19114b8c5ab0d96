"""The headers that every answer bears: what a browser may load, keep and tell for a page of this site."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from failuremap.site.app.settings import Address

_YEAR_S = 365 * 24 * 3600
_POLICY = (
    "default-src 'none'; script-src 'self'{wasm}; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_WORKER = "/assets/run-worker.js"
_FEATURES = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb", "browsing-topics")


def security_headers(address: Address, runs_python: bool) -> dict[str, str]:
    """Returns the headers by name.

    Args:
        address: Where the site stands; one that browsers find over https wants it to stay so.
        runs_python: Whether it is the answer with the worker that runs scripts, and so compiles WebAssembly: a worker
            has the policy with which its own script came, so no page needs it.
    """
    headers = {
        "Content-Security-Policy": _POLICY.format(wasm=" 'wasm-unsafe-eval'" if runs_python else ""),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Permissions-Policy": ", ".join(f"{feature}=()" for feature in _FEATURES),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return headers | ({"Strict-Transport-Security": f"max-age={_YEAR_S}"} if address.is_https else {})


class SecurityHeaders:
    """Adds the headers to every answer, refusals and errors among them."""

    def __init__(self, app: ASGIApp, address: Address) -> None:
        self._app = app
        self._headers = {is_worker: security_headers(address, is_worker) for is_worker in (False, True)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        chosen = self._headers[scope.get("path", "").endswith(_WORKER)]

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in chosen.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)
