"""Tries to reach the network, and sockets on this machine."""

from __future__ import annotations

from failuremap.score.selftest.escapes.escape import escape, raw_call

_AF_UNIX, _AF_INET, _AF_NETLINK, _AF_VSOCK = 1, 2, 16, 40
_STREAM, _RAW_SOCKET = 1, 3

NETWORK = (
    escape(
        "connect to this machine",
        """
        def solve(argument):
            import socket
            socket.create_connection(("127.0.0.1", argument["port"]), 1).sendall(b"here")
        """,
    ),
    escape(
        "connect to a socket without a path",
        """
        def solve(argument):
            import socket
            socket.socket(socket.AF_UNIX).connect("\\0" + argument["abstract"])
        """,
    ),
    escape(
        "connect to a socket in a folder",
        """
        def solve(argument):
            import socket
            socket.socket(socket.AF_UNIX).connect(argument["socket"])
        """,
    ),
    escape(
        "connect by system calls",
        """
        def solve(argument):
            import struct
            descriptor = raw(argument, "socket", 2, 1, 0)
            address = struct.pack("<H", 2) + struct.pack(">H", argument["port"]) + bytes([127, 0, 0, 1]) + bytes(8)
            return "OUT" if raw(argument, "connect", descriptor, address, 16) == 0 else "refused"
        """,
    ),
    escape(
        "wait for connections",
        """
        def solve(argument):
            import socket
            socket.create_server(("127.0.0.1", 0))
            return "OUT"
        """,
    ),
    raw_call("socket", _AF_UNIX, _STREAM, 0, tried_without_box=True),
    raw_call("socketpair", _AF_UNIX, _STREAM, 0, 0),
    escape(
        "hear the kernel, or the machine underneath",
        f"""
        def solve(argument):
            kinds = [({_AF_NETLINK}, {_RAW_SOCKET}), ({_AF_VSOCK}, {_STREAM}), ({_AF_INET}, {_RAW_SOCKET})]
            opened = [raw(argument, "socket", family, kind, 0) for family, kind in kinds]
            return "OUT" if max(opened) >= 0 else "refused"
        """,
    ),
)
