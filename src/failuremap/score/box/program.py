"""What the interpreter in the box is given: two of our files as text, the modules to load, and the limits."""

from __future__ import annotations

import binascii
import functools
import marshal
import re
from pathlib import Path
from typing import Any

from failuremap.score.limits import Limits

# The files travel as code objects in the first line, so that no folder of ours is in the box.
_BOOT = (
    "import sys,marshal,binascii\n"
    "for name,code in marshal.loads(binascii.a2b_base64(sys.stdin.buffer.readline())):\n"
    " m=sys.modules[name]=type(sys)(name);exec(code,m.__dict__)\n"
    "m.main()"
)
_PACKAGE = "failuremap.score"
_FILES = "wire", "worker"
OFFERED_MODULES = frozenset(
    "abc array bisect builtins cmath collections contextlib copy dataclasses datetime decimal enum fractions functools "
    "heapq inspect io itertools json logging math numbers operator os pprint queue random re statistics string struct "
    "sys textwrap threading time traceback types typing warnings weakref".split()
)
"""What a candidate can import; nothing else can be found once the box is shut."""
_IMPORTED_WHEN_CALLED = {
    "enum": {"warnings"},
    "most_common": {"heapq"},
    "singledispatch": {"typing", "weakref"},
    "singledispatchmethod": {"typing", "weakref"},
    "strptime": {"_strptime"},
}
"""What some functions of offered modules import only when they are called."""


def python_command(python: str) -> list[str]:
    """Returns the command that starts the interpreter in the box."""
    return [python, "-s", "-S", "-B", "-P", "-X", "utf8", "-c", _BOOT]


@functools.cache
def first_line() -> bytes:
    """Returns the line that carries our files into the box."""
    folder = Path(__file__).parents[1]
    texts = {f"{_PACKAGE}.{file}": (folder / f"{file}.py").read_text(encoding="utf-8") for file in _FILES}
    code = [(name, compile(text, name, "exec", dont_inherit=True)) for name, text in texts.items()]
    return binascii.b2a_base64(marshal.dumps(code))


def setup(candidate: str, limits: Limits, program: bytes | None) -> list[Any]:
    """Returns what the worker does before it loads the candidate.

    Args:
        candidate: Its text; a module that it does not name is not loaded, so no input holds a Fraction unless it names
            `fractions`.
        limits: What the process may use.
        program: The filter of system calls that the worker puts on, if any.
    """
    amounts = {
        "RLIMIT_CPU": limits.cpu_s,
        "RLIMIT_AS": limits.memory_bytes,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_file_count,
        "RLIMIT_CORE": 0,
    }
    words = set(re.findall(r"\w+", candidate))
    named = (OFFERED_MODULES & words).union(*(_IMPORTED_WHEN_CALLED.get(word, ()) for word in words))
    named |= {"collections.abc"} if {"collections", "abc"} <= named else set()
    return [sorted(named), list(amounts.items()), program.hex() if program else ""]
