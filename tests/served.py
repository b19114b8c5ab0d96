"""A served site for tests: a real process, reached over real sockets, with members of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from failuremap.site.app.database import opened
from failuremap.site.app.invitations import invite

PASSWORD = "correct horse battery"
SLUGS = ("replica-means-ignore-counts", "partials-averaged", "divided-twice")
"""Two open mechanisms and one that is held back."""
CASE = "FM-001-1"
_START_S = 600


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Server:
    """One `failuremap serve`, and the commands that go with it."""

    folder: Path
    options: tuple[str, ...] = ()
    only: tuple[str, ...] = SLUGS
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    visitor_count: int = 0

    @property
    def database(self) -> Path:
        """The file of the members."""
        return self.folder / "site.sqlite3"

    @property
    def log(self) -> Path:
        """What the site has said on stderr, over all its starts."""
        return self.folder / "log"

    @property
    def url(self) -> str:
        """Where browsers find it."""
        return f"http://localhost:{self.port}"

    def start(self) -> Server:
        """Start it; return when it answers and its worker is ready."""
        only = [word for slug in self.only for word in ("--only", slug)]
        ready = self.log.read_text().count("worker ready") if self.log.exists() else 0
        command = ["serve", "--port", str(self.port), "--trusted-proxy", "127.0.0.1", *self.options, *only]
        with open(self.log, "ab") as log:
            own = {name: value for name, value in self._environment().items() if name != "FAILUREMAP_PUBLIC_URL"}
            self.process = subprocess.Popen(self._command(*command), env=own, stderr=log)
        deadline = time.monotonic() + _START_S
        while self.log.read_text().count("worker ready") == ready or not self._answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end; return the exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(60)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command of failuremap on this site's database."""
        return subprocess.run(self._command(*words), env=self._environment(), capture_output=True, text=True)

    def invite(self, name: str) -> str:
        """Return the path of an invitation, made as `failuremap invite` makes it."""
        with opened(self.database) as db:
            return f"/join/{invite(db, name, 1, int(time.time()))}"

    def visitor(self, address: str = "") -> Visitor:
        """Return a client that comes from an address of its own."""
        self.visitor_count += 1
        high, low = divmod(self.visitor_count, 250)
        return Visitor(self.url, address or f"10.1.{high}.{low + 1}")

    def member(self, name: str) -> Visitor:
        """Return the client of a new member, who is signed in."""
        client = self.visitor()
        joined = client.post(self.invite(name), data={"password": PASSWORD})
        assert joined.status_code == 303, joined.text
        return client

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health").status_code == 200
        except httpx.TransportError:
            return False

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "failuremap", *words]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "FAILUREMAP_DATABASE": str(self.database), "FAILUREMAP_PUBLIC_URL": self.url}


class Visitor(httpx.Client):
    """A browser's requests: cookies are kept, and what changes something says from which page it comes."""

    def __init__(self, url: str, address: str) -> None:
        nothing_kept = httpx.Limits(max_keepalive_connections=0)  # so that no test has to close it
        super().__init__(base_url=url, headers={"X-Forwarded-For": address}, timeout=60, limits=nothing_kept)
        self.event_hooks = {"request": [self._say_origin]}

    def _say_origin(self, request: httpx.Request) -> None:
        if request.method not in {"GET", "HEAD"} and "X-Raw" not in request.headers:
            request.headers.setdefault("Origin", str(self.base_url).rstrip("/"))

    def sign_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        """Send the form of the sign-in page."""
        return self.post("/sign-in", data={"name": name, "password": password})

    def hand_in(self, source: str, case: str = CASE, note: str = "") -> httpx.Response:
        """Send the form of a candidate."""
        return self.post("/candidates", data={"case": case, "source": source, "note": note})

    def verdict(self, path: str, within_s: float = 120) -> dict:
        """Wait for the verdict on a candidate, given by the path of its page."""
        number = re.search(r"\d+$", path)[0]
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            found = self.get(f"/api/member/candidates/{number}").json()
            if found["state"] == "judged":
                return found["verdict"]
            time.sleep(0.1)
        raise AssertionError(f"no verdict within {within_s} s")
