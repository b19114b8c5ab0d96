"""Filters of system calls, as the kernel runs them: eight-byte instructions on a call's number and arguments.

Two filters, one on the other. bubblewrap puts on the first, which denies what nothing in the box ever needs; it cannot
deny starting a program, for the interpreter is started under it. The worker puts on the second before it touches the
candidate: it allows computing, reading and writing the judge's two pipes, and nothing else.
"""

from __future__ import annotations

import platform
import struct
import sys
from dataclasses import dataclass
from typing import Literal

from failuremap.score.box import syscalls

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_KILL, _ALLOW, _ERROR = 0x80000000, 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38
_PROT_EXEC = 4
_ENDED_BY_SIGNAL = 128


@dataclass(frozen=True)
class Condition:
    """What an argument's lower 32 bits must be for a call to be allowed."""

    argument: int
    kind: Literal["equal", "at most", "no bit"]
    operand: int


_CONDITIONS = {
    "read": Condition(0, "equal", 0),
    "write": Condition(0, "equal", 1),
    "mmap": Condition(2, "no bit", _PROT_EXEC),
    "mprotect": Condition(2, "no bit", _PROT_EXEC),
    # Exit codes above are how bubblewrap reports signals: a candidate cannot pretend that something killed it.
    "exit_group": Condition(0, "at most", _ENDED_BY_SIGNAL),
}


def this_machine() -> str | None:
    """Returns the architecture that filters can be made for here, or None."""
    machine = platform.machine()
    return machine if sys.platform == "linux" and machine in syscalls.ARCHITECTURES else None


def denying_filter(machine: str) -> bytes:
    """Returns the filter that the interpreter starts under."""
    denied = syscalls.numbers(syscalls.DENIED, machine).values()
    body = [_head(machine), _test(_GREATER, syscalls.NEWEST, 0, 1), _return(_ERROR | ENOSYS)]
    body += [_test(_EQUAL, number, 0, 1) + _return(_ERROR | EPERM) for number in denied]
    return b"".join(body) + _return(_ALLOW)


def allowing_filter(machine: str) -> bytes:
    """Returns the filter that the candidate runs under."""
    body = [_head(machine)]
    for name, number in syscalls.numbers(syscalls.ALLOWED, machine).items():
        permitted = _permitted(_CONDITIONS.get(name))
        body.append(_test(_EQUAL, number, 0, len(permitted) // 8) + permitted)
    return b"".join(body) + _return(_ERROR | EPERM)


def _head(machine: str) -> bytes:
    """Ends a process that calls by another architecture's numbers, and leaves the call's number to be tested."""
    return (
        _load(_ARCHITECTURE_AT)
        + _test(_EQUAL, syscalls.ARCHITECTURES[machine], 1, 0)
        + _return(_KILL)
        + _load(_NUMBER_AT)
    )


def _permitted(condition: Condition | None) -> bytes:
    if condition is None:
        return _return(_ALLOW)
    test = {
        "equal": _test(_EQUAL, condition.operand, 0, 1),
        "at most": _test(_GREATER, condition.operand, 1, 0),
        "no bit": _test(_ANY_BIT, condition.operand, 1, 0),
    }[condition.kind]
    return _load(_ARGUMENTS_AT + 8 * condition.argument) + test + _return(_ALLOW) + _return(_ERROR | EPERM)


def _load(offset: int) -> bytes:
    return struct.pack("<HBBI", _LOAD, 0, 0, offset)


def _test(kind: int, operand: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("<HBBI", kind, if_true, if_false, operand)


def _return(action: int) -> bytes:
    return struct.pack("<HBBI", _RETURN, 0, 0, action)
