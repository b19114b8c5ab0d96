"""The one program inside the box: it knows the candidate and one input at a time, and never an answer.

It reads a line and writes a line, in turn. Each line read has a number that nobody can guess, and the line written for
it has the same: an answer cannot be written before its input has been read.

    [number, "call", input]  [number, "again"]          what is read; `again` calls with the same object once more
    [number, "twice", input, number]                    `call` and `again` in one, answered by two lines
    [number, "value", value, after, kept]               what is written: the input afterwards, null where it is as it
                                                        was last told; and whether the answer before, the input that
                                                        it was to, and some of those before are as they were
    [number, "stop", code, detail]                      or this, and nothing more

Whatever a candidate does to this file's functions while it runs in the same process, all it can change is what it
answers. Standard library only, and of that as little as can be: each import here is waited for at every verdict.
"""

from __future__ import annotations

import builtins
import io
import os
import resource
import struct
import sys

from failuremap.score.wire import WireError, encode, read_line, text_of, unpack, write_line

TYPE_CHECKING = False  # what checkers of types take as true
if TYPE_CHECKING:
    from typing import Any

_VARARGS = 0x04
_ANSWERS = 1
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 1, 38, 22, 2
_SIGKILL = 9
_LOOKS = 2
"""How many of what went before are looked at after each call."""
_KEPT_BYTES = 1 << 12
"""The longest that is held for it: what is held counts against the candidate's memory."""
_INSTRUCTION = 8
_BYTES_AT = bytes.__basicsize__ - 1
"""Where a bytes object of CPython holds its bytes, from its own address on; its last byte is a zero more."""


class _Stop(Exception):
    """There will be no answer."""

    def __init__(self, code: str, detail: object = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class _Discarded(io.TextIOBase):
    """What the candidate prints to."""

    def write(self, text: str) -> int:
        return len(text)


class _Past:
    """The answers and inputs of all calls before, of which one after another is looked at again, in turn."""

    def __init__(self) -> None:
        self._held: list[tuple[Any, bytes]] = []
        self._place = 0

    def add(self, value: Any, text: bytes) -> None:
        if len(text) <= _KEPT_BYTES:
            self._held.append((value, text))

    def is_kept(self) -> bool:
        for _ in self._held[:_LOOKS]:
            self._place = (self._place + 1) % len(self._held)
            value, text = self._held[self._place]
            if _text(value) != text:
                return False
        return True


def main() -> None:
    """Shuts the process in, loads the candidate and answers until nobody asks any more."""
    requests = sys.stdin.buffer
    number, modules, limits, program = read_line(requests.readline())
    _preload(modules)
    _limit(limits)
    if sys.platform == "linux":
        _shut(bytes.fromhex(program))
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), _Discarded(), _Discarded()
    _send([number, "ready"])
    number, source = read_line(requests.readline())
    try:
        solve = _load(source)
        _send([number, "loaded"])
        _serve(solve, requests)
    except _Stop as stop:
        _send([number, "stop", stop.code, stop.detail])
    os._exit(0)


def _serve(solve: Any, requests: Any) -> None:
    held: Any = None
    result: Any = None
    told, was = _text(held), _text(result)
    in_place, past = True, _Past()
    while line := requests.readline():
        answers: list[list[Any]] = []
        for number, verb, *tree in _calls(read_line(line)):
            earlier = [(result, was)]
            if verb == "call":
                in_place = not in_place
                earlier.append((held, told))
                given = _put(unpack(tree[0]), held if in_place else None)
                if given is not held:
                    past.add(held, told)
                held, told = given, _text(given)
            try:
                result, value, after = _call(solve, held, told)
            except _Stop as stop:
                answers.append([number, "stop", stop.code, stop.detail])
                continue
            kept = (verb == "call" and in_place) or all(_text(left) == text for left, text in earlier)
            kept = kept and past.is_kept()
            told, was = told if after is None else _text(held), _text(result)
            if not _is_in(held, result):
                past.add(result, was)
            answers.append([number, "value", value, after, kept])
        _send(*answers)


def _calls(request: list[Any]) -> list[list[Any]]:
    number, verb, *rest = request
    return [request] if verb != "twice" else [[number, "call", rest[0]], [rest[1], "again"]]


def _put(given: Any, held: Any) -> Any:
    """Returns an input, inside the object of the one before where that can be: what goes by its id has the old one."""
    if type(given) is list and type(held) is list:
        held[:] = given
        return held
    return given


def _is_in(held: Any, result: Any) -> bool:
    """Says whether an answer holds the input's own object, into which the next input is put."""
    return result is held or (type(result) is list and any(part is held for part in result))


def _text(value: Any) -> bytes:
    """Returns a value as bytes; none where it is no longer a value."""
    try:
        return text_of(value)
    except WireError:
        return b""


def _call(solve: Any, held: Any, told: bytes) -> tuple[Any, Any, Any]:
    """Returns what one call gives, the same encoded, and the input after it encoded, or None where it is as told."""
    try:
        result = solve(held)
        return result, encode(result), None if _text(held) == told else encode(held)
    except WireError as error:
        raise _Stop(error.code, error.detail) from None
    except BaseException as error:  # noqa: BLE001 - whatever a candidate raises is its answer
        raise _stop(error) from None


def _load(source: str) -> Any:
    """Returns the candidate's `solve`."""
    module = type(sys)("candidate")
    sys.modules["candidate"] = module
    try:
        code = compile(source, "candidate.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _Stop("syntax", error.lineno or 0) from None
    except (ValueError, MemoryError, RecursionError):
        raise _Stop("syntax", 0) from None
    try:
        exec(code, module.__dict__)  # noqa: S102 - what the box is for
    except BaseException as error:  # noqa: BLE001
        raise _stop(error) from None
    solve = module.__dict__.get("solve")
    if solve is None:
        raise _Stop("no-solve")
    if not callable(solve):
        raise _Stop("not-callable")
    _check_arguments(solve)
    return solve


def _check_arguments(solve: Any) -> None:
    """Refuses a plain function that cannot be called with one argument."""
    code = getattr(solve, "__code__", None)
    if type(solve) is not type(_load) or code is None:
        return
    required = code.co_argcount - len(solve.__defaults__ or ())
    most = code.co_argcount if not code.co_flags & _VARARGS else sys.maxsize
    if not required <= 1 <= most or code.co_kwonlyargcount > len(solve.__kwdefaults__ or ()):
        raise _Stop("arity", code.co_argcount)


def _stop(error: BaseException) -> _Stop:
    if isinstance(error, MemoryError):
        return _Stop("memory")
    if isinstance(error, SystemExit):
        return _Stop("exit")
    if isinstance(error, ModuleNotFoundError):
        return _Stop("import", str(error.name))
    # Its own exceptions have names of its own, which could tell what it saw.
    name = type(error).__name__
    return _Stop("raised", name if getattr(builtins, name, None) is type(error) else "")


def _preload(modules: list[str]) -> None:
    for name in modules:
        __import__(name)


def _limit(limits: list[tuple[str, int]]) -> None:
    for name, amount in limits:
        kind = getattr(resource, name)
        slack = 1 if kind == resource.RLIMIT_CPU else 0
        _, most = resource.getrlimit(kind)
        most = amount + slack if most == resource.RLIM_INFINITY else min(most, amount + slack)
        resource.setrlimit(kind, (min(amount, most), most))


def _shut(program: bytes) -> None:
    """Ends this process with its parent, and lets the kernel refuse every call that a filter does not allow."""
    import _ctypes  # all of `ctypes` that is needed; to import the rest takes half as long as starting the interpreter

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "prctl")  # type: ignore[arg-type]
    head = struct.pack("HP", len(program) // _INSTRUCTION, id(program) + _BYTES_AT)
    wanted: list[tuple[int, int, int | bytes]] = [(_PR_SET_PDEATHSIG, _SIGKILL, 0), (_PR_SET_NO_NEW_PRIVS, 1, 0)]
    wanted += [(_PR_SET_SECCOMP, _FILTER, head)] if program else []
    for option, second, third in wanted:  # bytes are passed as the address of what they hold
        if _ctypes.call_function(prctl, (option, second, third, 0, 0)) != 0:
            raise OSError("prctl", option)


def _send(*trees: list[Any]) -> None:
    lines = b"".join(map(write_line, trees))
    while lines:
        lines = lines[os.write(_ANSWERS, lines) :]
