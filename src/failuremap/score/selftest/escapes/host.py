"""What an escape might touch on this machine: files, sockets, a process and secrets, watched while it tries."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import select
import shutil
import socket
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Self

from failuremap.score.box import seccomp, syscalls

_PATIENCE_S = 10.0
_OTHER_CALLS = "openat:257:56 prctl:157:167 prlimit64:302:261"
_MODULE = "SECRET = open(__file__.replace('host_module.py', 'secret')).read()\n"


class Host:
    """Bait, laid out from `with` to its end."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            self.folder = Path(tempfile.mkdtemp(prefix="failuremap-bait-"))
            undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.secrets = {
                name: f"ANSWER-{secrets.token_hex(16)}" for name in ("file", "environment", "memory", "seen")
            }
            (self.folder / "secret").write_text(self.secrets["file"], encoding="ascii")
            (self.folder / "host_module.py").write_text(_MODULE, encoding="ascii")
            variable = f"FAILUREMAP_BAIT_{secrets.token_hex(8)}"  # other threads lay out bait of their own
            os.environ[variable] = self.secrets["environment"]
            undo.callback(os.environ.pop, variable)
            self._in_memory = ctypes.create_string_buffer(self.secrets["memory"].encode())
            abstract = f"failuremap-{secrets.token_hex(8)}"
            self._servers = [socket.create_server(("127.0.0.1", 0))]
            for address in (f"\0{abstract}", str(self.folder / "socket")):
                self._servers.append(socket.socket(socket.AF_UNIX))
                self._servers[-1].bind(address)
                self._servers[-1].listen()
            for server in self._servers:
                undo.callback(server.close)
                server.setblocking(False)
            self._victim = subprocess.Popen(
                ["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )
            undo.enter_context(self._victim)
            undo.callback(self._victim.kill)
            self._before = self._listing()
            self.argument = self._argument(abstract)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def touched(self) -> str | None:
        """Says what of the host has been touched, or None."""
        if self._listing() != self._before:
            return "a file of the host was written or removed"
        for server in self._servers:
            with contextlib.suppress(BlockingIOError):
                server.accept()[0].close()
                return "a socket of the host was reached"
        return None if self._victim_answers() else "a process of the host was ended"

    def _victim_answers(self) -> bool:
        """True where the process still does what it is there for: a signal on its way has arrived by then."""
        assert self._victim.stdin and self._victim.stdout
        with contextlib.suppress(BrokenPipeError):
            self._victim.stdin.write(b"?")
            ready, _, _ = select.select([self._victim.stdout], [], [], _PATIENCE_S)
            return bool(ready) and self._victim.stdout.read(1) == b"?"
        return False

    def secret_in(self, text: str, *, but: str = "") -> str | None:
        """Says which secret is in a text, or None; `but` names one that may be."""
        found = [name for name, secret in self.secrets.items() if secret in text and name != but]
        return f"the secret in the judge's {found[0]} came out" if found else None

    def _listing(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def _argument(self, abstract: str) -> dict[str, Any]:
        """Returns all that an attacker could wish to know."""
        machine = seccomp.this_machine() or "x86_64"
        calls = syscalls.numbers(f"{syscalls.DENIED} {syscalls.ALLOWED} {_OTHER_CALLS}", machine)
        return {
            "folder": str(self.folder),
            "secret_file": str(self.folder / "secret"),
            "socket": str(self.folder / "socket"),
            "abstract": abstract,
            "port": self._servers[0].getsockname()[1],
            "victim": self._victim.pid,
            "judge": os.getpid(),
            "address": ctypes.addressof(self._in_memory),
            "program": os.path.realpath("/bin/sh"),
            "packages": [sysconfig.get_path("purelib")],
            "seen": self.secrets["seen"],
            "calls": calls,
        }
