"""Tries to use more than is allowed."""

from __future__ import annotations

from failuremap.score.selftest.escapes.escape import escape

RESOURCES = (
    escape(
        "fill the disk",
        """
        def solve(argument):
            for folder in ("/tmp", "/var/tmp", "/dev/shm", "."):
                for place in range(64):
                    try:
                        with open(f"{folder}/{argument['seen']}-{place}", "wb") as file:
                            file.write(bytes(1 << 20))
                    except OSError:
                        break
                else:
                    return "OUT"
            return "full"
        """,
        tried_without_box=False,
    ),
    escape(
        "write one large file",
        """
        import os
        def solve(argument):
            with open(argument["folder"] + "/mark", "wb", buffering=0) as file:
                for _ in range(64):
                    file.write(bytes(1 << 20))
            return "OUT"
        """,
    ),
    escape(
        "take more memory",
        """
        def solve(argument):
            held = []
            for _ in range(40):
                held.append(bytearray(b"x") * (16 << 20))
            return "OUT"
        """,
    ),
    escape(
        "map more memory",
        """
        def solve(argument):
            return "OUT" if raw(argument, "mmap", 0, 1 << 32, 3, 34, -1, 0) >= 0 else "refused"
        """,
    ),
    escape(
        "run for ever",
        """
        def solve(argument):
            while True:
                try:
                    while True:
                        pass
                except BaseException:
                    pass
        """,
    ),
    escape(
        "run for ever while being loaded",
        """
        while True:
            pass
        """,
    ),
    escape(
        "run for ever in C",
        """
        def solve(argument):
            return "OUT" if 7 ** (10 ** 10) else 0
        """,
    ),
    escape(
        "wait for ever",
        """
        import os
        def solve(argument):
            return os.read(0, 1).decode()
        """,
    ),
    escape(
        "raise the limits",
        """
        def solve(argument):
            import resource
            resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
            return "OUT"
        """,
    ),
    escape(
        "raise the limits by a system call",
        """
        import struct
        def solve(argument):
            return "OUT" if raw(argument, "prlimit64", 0, 0, struct.pack("QQ", 100, 100), 0) == 0 else "refused"
        """,
    ),
    escape(
        "fork without end",
        """
        import os
        def solve(argument):
            while True:
                os.fork()
        """,
        tried_without_box=False,
    ),
    escape(
        "start threads without end",
        """
        import threading, time
        def solve(argument):
            for _ in range(100):
                threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
            return "OUT"
        """,
    ),
    escape(
        "use up the stack",
        """
        def down():
            return down()
        def solve(argument):
            sys.setrecursionlimit(10 ** 9)
            return down()
        """,
    ),
    escape(
        "open files without end",
        """
        import os
        def solve(argument):
            for _ in range(1000):
                os.dup(0)
            return "OUT"
        """,
    ),
    escape(
        "print without end",
        """
        def solve(argument):
            while True:
                print("x" * 1_000_000, flush=True)
        """,
    ),
    escape(
        "answer with too much",
        """
        def solve(argument):
            part = [0.1] * 1000
            for _ in range(20):
                part = [part] * 10
            return part
        """,
    ),
)
