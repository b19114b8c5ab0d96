"""HTTP/1.1 with a clock on the header: who sends it byte by byte doesn't hold a connection for long."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """Ends a connection whose next header isn't complete in time; between requests the server's keep-alive counts."""

    header_timeout_s = 10.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the clock."""
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        """Stops the clock where the header is complete."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._deadline is None:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._stop()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Refuses: there are no websockets here."""
        del event
        self.send_400_response("There are no websockets here.")

    def _start(self) -> None:
        self._deadline = self.loop.call_later(self.header_timeout_s, self._give_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.abort()


def timed_protocol(header_timeout_s: float) -> type[Any]:
    """Returns the protocol with this time for a header."""
    return type("TimedProtocol", (TimedProtocol,), {"header_timeout_s": header_timeout_s})
