"""The terminal page of a verdict: one screen, also on a pipe, without colour and without Unicode."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from failuremap.audit.model import Outcome, Verdict
from failuremap.audit.report.cells import main_cells
from failuremap.audit.report.outline import MARKS, Line, about, because, context, leads, notes, rests_on
from failuremap.audit.report.picture import Picture
from failuremap.audit.report.repairs import repairs
from failuremap.audit.report.words import clean, plural

WIDEST = 120
NARROWEST = 40
MARGIN = 2
LABEL = 11
MOST_NOTES = 3
MOST_FURTHER = 3

STYLES: dict[Outcome, str] = {
    "right": "bold green",
    "wrong": "bold red",
    "cannot tell": "bold yellow",
    "not measured": "bold yellow",
    "script failed": "bold magenta",
}

# Each to as many ASCII characters as keep the columns of the picture aligned; the dots and ± stand in running text.
PLAIN = str.maketrans(
    {"✓": "+", "✗": "x", "·": "-", "…": "...", "±": "+/-", "×": "x", "┊": "|", "█": "#"}
    | dict.fromkeys("▋▊▉", "#")
    | dict.fromkeys("▏▎▍▌", ".")
)


def page(verdict: Verdict, width: int | None = None) -> RenderableType:
    """Lay a verdict out for a terminal, in the width of the console unless one is given.

    Example:
        >>> from rich.console import Console
        >>> verdict = Verdict(outcome="not measured", sentence="No optimizer step was seen.")
        >>> Console(width=80).print(page(verdict))
        ? not measured  No optimizer step was seen.
    """
    return _Page(verdict, width)


def print_verdict(verdict: Verdict, file: TextIO | None = None) -> None:
    """Print the page to a file, to standard output if none is given; plain text where it is no terminal.

    Raises:
        BrokenPipeError: Whoever read it has stopped.
    """
    _Paper(file=file, highlight=False, markup=False, emoji=False).print(page(verdict))


class _Paper(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the console would end the process with code 1, which means that the job is wrong


def text(verdict: Verdict, width: int = 100) -> str:
    """The page as plain text.

    Example:
        >>> text(Verdict(outcome="right", sentence="Every token weighs the same."))
        '✓ right  Every token weighs the same.\\n'
    """
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False, color_system=None)
    console.print(page(verdict))
    return file.getvalue()


@dataclass(frozen=True)
class _Page:
    verdict: Verdict
    width: int | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(NARROWEST, min(WIDEST, self.width or options.max_width))
        for line in self._lines(console, width):
            line.rstrip()
            yield line if not options.ascii_only else _plain(line, options.encoding)

    def _lines(self, console: Console, width: int) -> Iterator[Text]:
        verdict = self.verdict
        cells = main_cells(verdict)
        yield from self._headline(console, width)
        yield from _labelled(because(verdict), console, width)
        if verdict.findings:
            yield from _labelled(_beside(about(verdict.findings[0], verdict), width), console, width)
        picture = Picture(verdict, cells, width - MARGIN).lines()
        closing = self._closing(rests_on(cells, verdict.evidence))
        if picture:
            yield Text()
        for line in picture:
            yield from _indented(line.wrap(console, width - MARGIN))
        if picture and closing:
            yield Text()
        yield from _labelled(closing, console, width)

    def _headline(self, console: Console, width: int) -> Iterator[Text]:
        verdict = self.verdict
        mark = MARKS[verdict.outcome]
        outcome = f"{mark} " if leads(verdict) else f"{mark} {verdict.outcome}  "
        first, *rest = Text(outcome + clean(verdict.sentence), "bold").wrap(console, width - MARGIN)
        first.stylize(STYLES[verdict.outcome], 0, len(mark) + 1 + len(verdict.outcome))
        yield first
        yield from _indented(rest)
        if context(verdict):
            yield from _indented(Text(" · ".join(context(verdict)), "dim").wrap(console, width - MARGIN))

    def _closing(self, rests: str) -> list[Line]:
        verdict = self.verdict
        further = [finding.sentence for finding in verdict.findings[1:]]
        lines = [("evidence", rests)] if rests else []
        lines += _listed("also", further, MOST_FURTHER, "finding")
        for finding in verdict.findings[:1]:
            told = [clean(text) for text in repairs(finding, verdict)]
            lines += [("repair" if index == 0 else "", text) for index, text in enumerate(told)]
        return lines + _listed("note", notes(verdict), MOST_NOTES, "note")


def _listed(label: str, texts: list[str], most: int, noun: str) -> list[Line]:
    lines = [clean(text) for text in texts[:most]]
    if len(texts) > most:
        lines[-1] += f"   ({plural(len(texts) - most, f'more {noun}')} in the JSON)"
    return [(label if index == 0 else "", line) for index, line in enumerate(lines)]


def _beside(lines: list[Line], width: int) -> list[Line]:
    """Put what was followed and what was promised on one line, where both fit."""
    found = dict(lines)
    both = f"{found.get('followed', '')}     promised   {found.get('promised', '')}"
    if "followed" not in found or "promised" not in found or len(both) > width - MARGIN - LABEL:
        return lines
    return [("followed", both), *(line for line in lines if line[0] not in ("followed", "promised"))]


def _labelled(lines: list[Line], console: Console, width: int) -> Iterator[Text]:
    """Set each text behind its label, and its further lines below its first."""
    for label, text in lines:
        for index, part in enumerate(Text(text).wrap(console, width - MARGIN - LABEL)):
            shown = label if index == 0 else ""
            yield Text.assemble(" " * MARGIN, (f"{shown:<{LABEL}}", "dim"), part)


def _indented(lines: Iterable[Text]) -> Iterator[Text]:
    return (Text(" " * MARGIN).append_text(line) for line in lines)


def _plain(line: Text, encoding: str) -> Text:
    """Replace what the encoding of the terminal cannot show; colours by span are given up, the words remain."""
    text = line.plain.translate(PLAIN)
    return Text(text.encode(encoding, "backslashreplace").decode(encoding), line.style)
