"""Runs the site: one process that serves, one that judges; stops both without losing what was acknowledged."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from failuremap.errors import InvalidArgument
from failuremap.site.app.application import application
from failuremap.site.app.library import Site, libraries
from failuremap.site.app.locking import sole_user
from failuremap.site.app.logs import log, set_up_logging
from failuremap.site.app.migrate import migrate
from failuremap.site.app.protocol import timed_protocol
from failuremap.site.app.settings import Settings

_STOP_S = 15
_RESTART_AFTER_S = 2.0
_MAX_HEADER_BYTES = 16 * 1024
_MAX_CONNECTIONS = 1000
_KEEP_ALIVE_S = 5
_BACKLOG = 1024


class Worker:
    """The process that judges, started again whenever it ends by itself."""

    def __init__(self, database: Path, key_file: Path | None) -> None:
        self._command = [sys.executable, "-m", "failuremap.site.app.worker", str(database)]
        self._command += [str(key_file)] if key_file else []
        self._stopping = threading.Event()
        self._since = 0
        self._process = self._start()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _start(self) -> subprocess.Popen[bytes]:
        # It reads its end of stdin: where this process dies, it ends too. A session of its own keeps Ctrl-C from it.
        self._since = int(time.time())
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)

    def _watch(self) -> None:
        while True:
            code = self._process.wait()
            if self._stopping.wait(_RESTART_AFTER_S):
                return
            log("worker ended", exit_code=code)
            self._process = self._start()

    def since(self) -> int | None:
        """When it was started, in seconds since 1970; None where it isn't running."""
        return self._since if self._process.poll() is None else None

    def stop(self) -> None:
        """Lets it put back what it is judging, and end."""
        self._stopping.set()
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # what it was judging goes back to the queue at the next start
        self._watcher.join()


@dataclass(frozen=True)
class Place:
    """Where the serving process listens, and which files it reads beside the database.

    Attributes:
        host: The address to listen at.
        port: Its port.
        key_file: The key of the season's held-back inputs.
        pyodide: A folder with pyodide.
        only: The mechanisms to show; all where none is named.
    """

    host: str
    port: int
    key_file: Path | None = None
    pyodide: Path | None = None
    only: tuple[str, ...] = ()


def serve(settings: Settings, place: Place) -> None:
    """Serves the site until SIGTERM or SIGINT comes.

    Raises:
        InvalidArgument: The address is taken, or the database is in use, or not ours.
    """
    with sole_user(settings.database), _listening(place.host, place.port) as listener:
        copy = migrate(settings.database)
        if copy:
            log("schema migrated", copy=copy.name)
        log("building the pages")
        site = Site(settings, libraries(f"{settings.address}/", place.pyodide, place.only))
        for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when it has stopped
            signal.signal(number, lambda *_: None)
        worker = Worker(settings.database, place.key_file)
        try:
            server = uvicorn.Server(_configuration(site, worker))
            log("serving", address=str(settings.address))
            server.run([listener])
        finally:
            worker.stop()
            log("stopped")


def _configuration(site: Site, worker: Worker) -> uvicorn.Config:
    return uvicorn.Config(
        application(site, worker.since),
        http=timed_protocol(site.settings.header_timeout_s, site.settings.body_timeout_s),
        ws="none",
        lifespan="off",
        log_config=set_up_logging(),
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
    )


def _listening(host: str, port: int) -> socket.socket:
    """Returns a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidArgument(
            f"--host {host} --port {port} can't be listened at: {error.strerror}; "
            "name another port, or stop what uses it."
        ) from error
    return listener
