"""One try to get out of a box."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

OUT = "OUT"
"""What a candidate answers that has done what a box forbids."""

_RAW = '''
import sys

def raw(argument, name, *args):
    """Makes a system call past everything that Python has to say about it."""
    import _ctypes  # which the worker has loaded; there is no more of ctypes in a box
    class Long(_ctypes._SimpleCData):
        _type_ = "l"
    class Call(_ctypes.CFuncPtr):
        _flags_, _restype_ = 1, Long
    call = Call(_ctypes.dlsym(_ctypes.dlopen(None, 2), "syscall"))
    return call(Long(argument["calls"][name]), *[each if type(each) is bytes else Long(each) for each in args])

def address(data):
    """Returns where a bytes object holds its bytes."""
    return id(data) + bytes.__basicsize__ - 1
'''


@dataclass(frozen=True)
class Escape:
    """A candidate that tries to get out.

    It has done so where it answers `OUT`, where a secret of the judge's is in its answer or in a sentence about it,
    where a file, a socket or a process of the host's has been touched, or where something of it outlives the box.

    Attributes:
        name: What it tries, in a word or three.
        source: The candidate's text.
        tried_without_box: False where the host could suffer from it.
    """

    name: str
    source: str
    tried_without_box: bool = True


def escape(name: str, body: str, *, tried_without_box: bool = True) -> Escape:
    """Makes an escape from the text of a candidate."""
    return Escape(name, _RAW + textwrap.dedent(body), tried_without_box)


def raw_call(name: str, *args: int | bytes, tried_without_box: bool = False) -> Escape:
    """Makes an escape from one system call, which has worked where the kernel returns no error.

    Example:
        >>> raw_call("setuid", 0).name
        'the system call setuid'
    """
    body = f"def solve(argument):\n    return {OUT!r} if raw(argument, {name!r}, *{args!r}) >= 0 else 'refused'\n"
    return Escape(f"the system call {name}", _RAW + body, tried_without_box)
