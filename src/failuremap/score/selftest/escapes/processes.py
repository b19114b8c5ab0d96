"""Tries to start, see, signal or outlive processes."""

from __future__ import annotations

from failuremap.score.selftest.escapes.escape import escape

PROCESSES = (
    escape(
        "fork",
        """
        import os
        def solve(argument):
            if os.fork() == 0:
                os._exit(0)
            return "OUT"
        """,
    ),
    escape(
        "fork by a system call",
        """
        def solve(argument):
            child = raw(argument, "clone", 17, 0, 0, 0, 0)
            if child == 0:
                raw(argument, "exit_group", 0)
            return "OUT" if child > 0 else "refused"
        """,
    ),
    escape(
        "outlive the box in a child",
        """
        import os, time
        def solve(argument):
            if os.fork() == 0:
                os.setsid()
                time.sleep(20)
                os._exit(0)
            return "a child sleeps"
        """,
    ),
    escape(
        "leave a thread behind",
        """
        import threading, time
        def solve(argument):
            threading.Thread(target=time.sleep, args=(20,)).start()
            return "OUT"
        """,
    ),
    escape(
        "leave the caller's group and end the answers",
        """
        import os
        def solve(argument):
            if os.fork() == 0:
                os.setsid()
                while True:
                    pass
            os._exit(0)
        """,
    ),
    escape(
        "start a program",
        """
        import os
        def solve(argument):
            if os.system("true") == 0:
                return "OUT"
        """,
    ),
    escape(
        "become a program",
        """
        import os
        def solve(argument):
            os.execv("/bin/sh", ["sh", "-c", "echo > " + argument["folder"] + "/mark"])
        """,
    ),
    escape(
        "start a program by posix_spawn",
        """
        import os, sys
        def solve(argument):
            os.posix_spawn(sys.executable, [sys.executable, "-c", "1"], {})
            return "OUT"
        """,
    ),
    escape(
        "run a program from memory",
        """
        import os
        def solve(argument):
            descriptor = raw(argument, "memfd_create", b"program", 0)
            with open(argument["program"], "rb") as program:
                os.write(descriptor, program.read())
            os.execve(descriptor, ["sh", "-c", "echo > " + argument["folder"] + "/mark"], {})
        """,
    ),
    escape(
        "run machine code that was written as data",
        """
        def solve(argument):
            return "OUT" if raw(argument, "mmap", 0, 4096, 7, 34, -1, 0) >= 0 else "refused"
        """,
    ),
    escape(
        "kill a process of the host",
        """
        import os, _signal as signal
        def solve(argument):
            os.kill(argument["victim"], signal.SIGKILL)
        """,
    ),
    escape(
        "kill the judge",
        """
        import os, _signal as signal
        def solve(argument):
            os.kill(argument["judge"], signal.SIGTERM)
        """,
        tried_without_box=False,
    ),
    escape(
        "kill the parent",
        """
        import os, _signal as signal
        def solve(argument):
            os.kill(os.getppid(), signal.SIGKILL)
            return "OUT"
        """,
        tried_without_box=False,
    ),
    escape(
        "kill everything",
        """
        import os, _signal as signal
        def solve(argument):
            os.kill(-1, signal.SIGKILL)
            return "OUT"
        """,
        tried_without_box=False,
    ),
    escape(
        "stop the group",
        """
        import os, _signal as signal
        def solve(argument):
            os.killpg(0, signal.SIGSTOP)
        """,
    ),
    escape(
        "see the processes of the host",
        """
        import os
        def solve(argument):
            return "OUT" if os.path.exists(f"/proc/{argument['victim']}") else "alone"
        """,
    ),
    escape(
        "see a process by its number",
        """
        def solve(argument):
            return "OUT" if raw(argument, "kill", argument["victim"], 0) == 0 else "refused"
        """,
    ),
    escape(
        "read the judge's memory",
        """
        import struct
        def solve(argument):
            here = bytes(8)
            local = struct.pack("QQ", address(here), 8)
            there = struct.pack("QQ", argument["address"], 8)
            count = raw(argument, "process_vm_readv", argument["judge"], local, 1, there, 1, 0)
            return "OUT" if count > 0 else "refused"
        """,
    ),
    escape(
        "open the judge's memory",
        """
        def solve(argument):
            with open(f"/proc/{argument['judge']}/mem", "rb") as memory:
                return "OUT"
        """,
    ),
    escape(
        "trace a process of the host",
        """
        def solve(argument):
            return "OUT" if raw(argument, "ptrace", 16, argument["victim"], 0, 0) == 0 else "refused"
        """,
    ),
    escape(
        "get hold of a process of the host",
        """
        def solve(argument):
            return "OUT" if raw(argument, "pidfd_open", argument["victim"], 0) >= 0 else "refused"
        """,
    ),
)
