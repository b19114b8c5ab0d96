"""Values and lists as short text, the same in every report."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

MOST_LETTERS = 60


def clean(text: str) -> str:
    """Turn text from a job into one printable line.

    Script and parameter names may hold escape sequences or characters that reverse the reading direction;
    they are shown as escapes. White space, line ends included, becomes single spaces.
    """
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    r"""Show each unprintable character but the line end as its JSON escape, such as \u001b: JSON stays JSON."""
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def shorten(text: str, length: int) -> str:
    """Cut text to a length, with an ellipsis where something was cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def plural(count: float, noun: str, ending: str = "s") -> str:
    """Say a count with its noun: `1 rank`, `2 micro-batches`, `1,024 tokens`, `38.5 tokens`."""
    number = f"{count:,.0f}" if math.isfinite(count) and count == int(count) else f"{count:,.4g}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}{ending}"


def decimal(value: float, places: int = 2) -> str:
    """Write a value with fixed places, or in powers of ten where those would hide it."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("infinite" if value > 0 else "-infinite")
    small = 0 < abs(value) < 10**-places
    return power(value) if small or abs(value) >= 10_000 else f"{value:.{places}f}"


def power(value: float) -> str:
    """Write an error or a residual as one digit and a power of ten: `2e-8`."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else decimal(value)
    digits, exponent = f"{value:.0e}".split("e")
    return f"{digits}e{int(exponent)}"


def runs(numbers: Iterable[int]) -> str:
    """Write whole numbers with their runs joined: `1-6, 9, 12-14`."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    shown = [f"{first}-{last}" if last > first else f"{first}" for first, last in spans[:4]]
    return ", ".join(shown) + (", …" if len(spans) > 4 else "")


def some(names: Sequence[str], total: int, most: int = 3) -> str:
    """Name the first few and say how many there are beside them."""
    shown = [shorten(clean(name), MOST_LETTERS) for name in names[:most]]
    rest = max(total, len(names)) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
