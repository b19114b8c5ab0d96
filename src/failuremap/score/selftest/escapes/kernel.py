"""Tries to change what the kernel lets a process do."""

from __future__ import annotations

from failuremap.score.selftest.escapes.escape import escape, raw_call

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_DUMPABLE, _PR_SET_PDEATHSIG, _PR_SET_MM = 4, 1, 35
_KEY_SPEC_SESSION_KEYRING, _KEYCTL_GET_KEYRING_ID = -3, 0
_ANY_PERSONALITY = 0xFFFFFFFF
_IPC_PRIVATE, _IPC_CREAT = 0, 0o1600

KERNEL = (
    raw_call("unshare", _CLONE_NEWUSER | _CLONE_NEWNET, tried_without_box=True),
    raw_call("mount", b"none", b"/tmp", b"tmpfs", 0, 0),
    raw_call("umount2", b"/tmp", 2),
    raw_call("setns", 0, 0),
    raw_call("setuid", 0, tried_without_box=True),
    raw_call("setgroups", 0, 0),
    raw_call("sethostname", b"host", 4),
    raw_call("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0, tried_without_box=True),
    raw_call("personality", _ANY_PERSONALITY, tried_without_box=True),
    raw_call("keyctl", _KEYCTL_GET_KEYRING_ID, _KEY_SPEC_SESSION_KEYRING, 1),
    raw_call("add_key", b"user", b"name", b"value", 5, _KEY_SPEC_SESSION_KEYRING),
    raw_call("memfd_create", b"memory", 0, tried_without_box=True),
    raw_call("shmget", _IPC_PRIVATE, 4096, _IPC_CREAT),
    raw_call("name_to_handle_at", -100, b"/", 0, 0, 0),
    raw_call("inotify_init1", 0),
    raw_call("userfaultfd", 0),
    raw_call("bpf", 0, b"\2\0\0\0\4\0\0\0\4\0\0\0\1\0\0\0" + bytes(112), 128),
    raw_call("perf_event_open", bytes(4) + b"\x70" + bytes(123), 0, -1, -1, 0),
    escape(
        "rings of system calls",
        """
        def solve(argument):
            return "OUT" if raw(argument, "io_uring_setup", 4, bytes(120)) >= 0 else "refused"
        """,
        tried_without_box=False,
    ),
    escape(
        "take the filter off",
        f"""
        import os
        def solve(argument):
            raw(argument, "prctl", 22, 0, 0, 0, 0)
            raw(argument, "prctl", {_PR_SET_PDEATHSIG}, 0, 0, 0, 0)
            raw(argument, "prctl", {_PR_SET_MM}, 0, 0, 0, 0)
            return "OUT" if raw(argument, "openat", -100, b"/", 0) >= 0 else "refused"
        """,
    ),
    escape(
        "call by another architecture's numbers",
        """
        def solve(argument):
            call = dict(argument, calls={"openat": argument["calls"]["openat"] | 0x40000000})
            return "OUT" if raw(call, "openat", -100, b"/", 0) >= 0 else "refused"
        """,
    ),
)
