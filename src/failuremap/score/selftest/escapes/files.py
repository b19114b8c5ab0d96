"""Tries to reach the files of the host."""

from __future__ import annotations

from failuremap.score.selftest.escapes.escape import escape

FILES = (
    escape(
        "write a file of the host",
        """
        def solve(argument):
            with open(argument["folder"] + "/mark", "w") as file:
                file.write("here")
        """,
    ),
    escape(
        "write a file by posix alone",
        """
        import posix
        def solve(argument):
            where = argument["folder"] + "/mark"
            posix.write(posix.open(where, posix.O_CREAT | posix.O_WRONLY), b"here")
        """,
    ),
    escape(
        "make a folder of the host",
        """
        import os
        def solve(argument):
            os.mkdir(argument["folder"] + "/mark")
        """,
    ),
    escape(
        "make a link in a folder of the host",
        """
        import os
        def solve(argument):
            os.symlink("/", argument["folder"] + "/mark")
        """,
    ),
    escape(
        "remove a file of the host",
        """
        import os
        def solve(argument):
            os.unlink(argument["secret_file"])
        """,
    ),
    escape(
        "read a file of the host",
        """
        def solve(argument):
            return open(argument["secret_file"]).read()
        """,
    ),
    escape(
        "read a file of the host while being loaded",
        """
        import os
        text = [os.listdir(each) for each in ("/etc", "/root", "/home")]
        def solve(argument):
            return "OUT"
        """,
    ),
    escape(
        "read a file by a system call",
        """
        def solve(argument):
            descriptor = raw(argument, "openat", -100, argument["secret_file"].encode(), 0)
            buffer = bytes(200)
            raw(argument, "read", descriptor, buffer, len(buffer))
            return buffer.decode().strip(chr(0))
        """,
    ),
    escape(
        "read the host's root through its first process",
        """
        def solve(argument):
            return open("/proc/1/root" + argument["secret_file"]).read()
        """,
    ),
    escape(
        "read the judge's root through the judge's process",
        """
        def solve(argument):
            return open(f"/proc/{argument['judge']}/root" + argument["secret_file"]).read()
        """,
    ),
    escape(
        "climb out of the root by ..",
        """
        import os
        def solve(argument):
            os.chroot("/tmp")
            os.chdir("../" * 40)
            os.chroot(".")
            return open(argument["secret_file"]).read()
        """,
        tried_without_box=False,
    ),
    escape(
        "read files that the judge left open",
        """
        import os
        def solve(argument):
            found = []
            for descriptor in range(3, 256):
                try:
                    os.lseek(descriptor, 0, 0)
                    found.append(os.read(descriptor, 1000).decode("latin-1"))
                except OSError:
                    pass
            return found
        """,
    ),
    escape(
        "change the interpreter's library",
        """
        import os
        def solve(argument):
            with open(os.__file__, "a"):
                return "OUT"
        """,
        tried_without_box=False,
    ),
    escape(
        "import a module from a folder of the host",
        """
        import sys
        def solve(argument):
            sys.path.insert(0, argument["folder"])
            sys.path_importer_cache.clear()
            import host_module
            return host_module.SECRET
        """,
    ),
    escape(
        "import what is installed on the host",
        """
        import sys
        def solve(argument):
            sys.path += argument["packages"]
            import numpy
            return "OUT"
        """,
    ),
)
