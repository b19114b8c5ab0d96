"""HTTP/1.1 with clocks: a header that comes byte by byte, or an answer that nobody reads, doesn't hold a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_LEAST_BYTES_PER_S = 1024


class TimedProtocol(H11Protocol):
    """Ends a connection whose next header isn't complete in time; between requests the server's keep-alive counts.

    It ends one as well whose other side reads an answer more slowly than 1 KiB/s.
    """

    header_timeout_s = 10.0
    read_timeout_s = 20.0
    _deadline: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None

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
        """Stops the clocks."""
        self._stop()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Starts to watch whether what has been written is read."""
        super().pause_writing()
        self._watch_from(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stops watching."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, and lets the request that it came with end without an answer of its own."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _should_upgrade(self) -> bool:
        """There are no websockets and nothing else to change to here; the request is answered as any other."""
        return False

    def _start(self) -> None:
        self._deadline = self.loop.call_later(self.header_timeout_s, self._give_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.abort()

    def _watch_from(self, unread: int) -> None:
        self._watch = self.loop.call_later(self.read_timeout_s, self._look_again, unread)

    def _look_again(self, unread_before: int) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread_before - unread < _LEAST_BYTES_PER_S * self.read_timeout_s:
            self.transport.abort()
        else:
            self._watch_from(unread)


def timed_protocol(header_timeout_s: float, read_timeout_s: float) -> type[Any]:
    """Returns the protocol with these times for a header, and for reading a part of an answer."""
    times = {"header_timeout_s": header_timeout_s, "read_timeout_s": read_timeout_s}
    return type("TimedProtocol", (TimedProtocol,), times)
