"""Why there is no answer: what the box says, or how it ended -> an outcome and one sentence.

What the box says is written by whoever has the better of it, so only codes and names known here come through.
"""

from __future__ import annotations

import builtins
import re
import signal
from typing import Any

from failuremap.score.limits import Limits
from failuremap.score.stopped import Outcome, Stopped

_SOUND = "box-2", "box-3"
_TYPES = {name for name, value in vars(builtins).items() if isinstance(value, type)}
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
        "the candidate imports {module}, which is not in the box: standard library for computing only",
    ),
    "raised": ("crashed", "the candidate raised {name}"),
    "exit": ("crashed", "the candidate ended itself by SystemExit"),
    "memory": ("memory", "the candidate needed more than {limit}"),
    "type": (
        "malformed",
        "the candidate's answer holds {name}; it may hold int, float, Fraction, bool, str, None, list, tuple, dict",
    ),
    "key": ("malformed", "the candidate's answer holds a dict with a key that is no str"),
    "depth": ("malformed", "the candidate's answer is nested too deeply, or holds itself"),
    "form": ("malformed", "the candidate wrote to the judge itself, in no form that it reads"),
    "size": ("output", "the candidate's answer holds too many values, or too large ones"),
}


def reason_for(parts: list[Any], limits: Limits, source: str = "") -> Stopped:
    """Returns the reason for a code and its detail; `source` is the candidate's text, which it may quote."""
    code, detail = [*parts, "", ""][:2]
    outcome, sentence = _SENTENCES.get(code if type(code) is str else "", _SENTENCES["form"])
    words = {
        "where": f" in line {detail}" if type(detail) is int and 0 < detail <= limits.source_bytes else "",
        "name": detail if type(detail) is str and detail in _TYPES else "a type of its own",
        "module": detail if type(detail) is str and detail and detail in re.findall(r"[\w.]+", source) else "a module",
        "limit": f"memory_bytes={limits.memory_bytes}",
    }
    return Stopped(outcome, sentence.format(**words))


def reason_of_cpu(limits: Limits) -> Stopped:
    """Returns the reason for a candidate that ran too long."""
    return Stopped("timeout", f"the candidate was still running after cpu_s={limits.cpu_s}")


def reason_of_end(code: int, level: str, limits: Limits, *, out_of_memory: bool) -> Stopped:
    """Returns the reason for an exit code, or for 128 and the number of a signal."""
    number = -code if code < 0 else code - 128
    if out_of_memory:
        return reason_for(["memory"], limits)
    if number == signal.SIGXCPU:
        return reason_of_cpu(limits)
    if number == signal.SIGKILL and level in _SOUND:
        return Stopped(
            "judge-error", "something outside the box ended it; the candidate cannot have done so. Run it again"
        )
    if number in set(signal.Signals):
        return Stopped("crashed", f"the candidate's process died of {signal.Signals(number).name}")
    return Stopped("crashed", "the candidate ended its own process")
