"""Why there is no answer: what the box says, or how it ended -> an outcome and one sentence.

What the box says is written by whoever has the better of it, so only codes and names known here come through.
"""

from __future__ import annotations

import builtins
import signal
from typing import Any

from failuremap.score.limits import Limits
from failuremap.score.stopped import Outcome, Stopped

_SOUND = "box-2", "box-3"
_SENTENCES: dict[str, tuple[Outcome, str]] = {
    "syntax": ("malformed", "the candidate is no Python: a syntax error{where}"),
    "no-solve": ("malformed", "the candidate defines no solve; what is judged is solve(argument)"),
    "not-callable": ("malformed", "the candidate's solve cannot be called; what is judged is solve(argument)"),
    "arity": (
        "malformed",
        "the candidate's solve cannot be called with one argument; what is judged is solve(argument)",
    ),
    "import": (
        "crashed",
        "the candidate imports a module that is not in the box; use the standard library's for computing",
    ),
    "raised": ("crashed", "the candidate raised {name}"),
    "exit": ("crashed", "the candidate ended itself by SystemExit"),
    "memory": ("memory", "the candidate needed more than memory_bytes={limits.memory_bytes}"),
    "type": (
        "malformed",
        "the candidate's answer holds {name}; it may hold int, float, Fraction, bool, str, None, list, tuple, dict",
    ),
    "depth": ("malformed", "the candidate's answer is nested too deeply, or holds itself"),
    "size": ("output", "the candidate's answer holds too many values, or too large ones"),
}


def reason_for(parts: list[Any], limits: Limits) -> Stopped:
    """Returns the reason for a code and its detail."""
    code, detail = [*parts, "", ""][:2]
    outcome, sentence = _SENTENCES.get(code, _SENTENCES["depth"]) if type(code) is str else _SENTENCES["depth"]
    where = f" in line {detail}" if type(detail) is int and detail > 0 else ""
    known = type(detail) is str and isinstance(getattr(builtins, detail, None), type)
    name = detail if known else "a type or exception of its own"
    return Stopped(outcome, sentence.format(where=where, name=name, limits=limits))


def reason_of_end(code: int, level: str, limits: Limits) -> Stopped:
    """Returns the reason for an exit code, or for 128 and the number of a signal."""
    number = -code if code < 0 else code - 128
    if number == signal.SIGXCPU:
        return Stopped("timeout", f"the candidate was still running after cpu_s={limits.cpu_s}")
    if number == signal.SIGKILL and level in _SOUND:
        return Stopped("judge-error", "something outside the box ended it; run it again")
    if number in set(signal.Signals):
        return Stopped("crashed", f"the candidate's process died of {signal.Signals(number).name}")
    return Stopped("crashed", "the candidate ended its own process")
