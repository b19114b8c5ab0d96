"""The cells as lines of text: a row for each rank, or the heaviest and the lightest of too many."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.text import Text

from failuremap.audit.model import Cell, Verdict
from failuremap.audit.report.cells import count_text, fold, main_step, of_fair, share_text, word
from failuremap.audit.report.words import plural

MOST_RANKS = 4
MOST_RANKS_IN_ONE_COLUMN = 8
NARROWEST_COLUMN = 15
ONE_LINE_COLUMN = 25
WIDE_ENOUGH = 70
WIDEST_COLUMN = 40
GAP = 2
KEPT = 3
SHORTEST_BAR = 3
LONGEST_BAR = 20
EIGHTHS = " ▏▎▍▌▋▊▉"
FAIR_TICK = "┊"

# Only the bars have colours: their numbers are to be read on a light and on a dark background.
STYLES = {"light": "bright_blue", "heavy": "red", "no weight": "red", "negative": "red"}


@dataclass(frozen=True)
class Picture:
    """Draws the cells of a verdict into a width."""

    verdict: Verdict
    cells: list[Cell]
    width: int

    def lines(self) -> list[Text]:
        """Draw the header and the rows; nothing for no cells."""
        if not self.cells:
            return []
        if len(self._columns) == 1 and len(self._ranks) <= MOST_RANKS_IN_ONE_COLUMN:
            rows = self._rows([(f"rank {cell.rank}".ljust(self._label - GAP), cell) for cell in self.cells])
            return [self._header(f"{self._step:<{self._label}}micro-batch {self._columns[0]}", rows), *rows]
        if len(self._ranks) <= MOST_RANKS and self._column_width >= NARROWEST_COLUMN:
            return self._matrix()
        return self._folded()

    @property
    def _ranks(self) -> list[int]:
        return sorted({cell.rank for cell in self.cells})

    @property
    def _columns(self) -> list[int]:
        return sorted({cell.micro_batch for cell in self.cells})

    @property
    def _label(self) -> int:
        return max(len(self._step), *(len(f"rank {rank}") for rank in self._ranks)) + GAP

    @property
    def _step(self) -> str:
        step = main_step(self.verdict)
        return "" if step is None else f"step {step}"

    @property
    def _column_width(self) -> int:
        return min(WIDEST_COLUMN, (self.width - self._label) // len(self._columns) - GAP)

    def _header(self, text: str, rows: list[Text]) -> Text:
        """Explain the tick where one is drawn."""
        return Text(text + (f"   {FAIR_TICK} marks a fair share" if _ticked(rows) else ""), "dim")

    def _folded(self) -> list[Text]:
        folded = fold(self.cells, KEPT)
        columns = len(self._columns)
        size = f"{plural(len(self._ranks), 'rank')} x {plural(columns, 'micro-batch', 'es')}"
        rows = self._rows([(_place(cell, columns), cell) for cell in folded.heaviest + folded.lightest])
        header = self._header(f"{self._step}  heaviest and lightest of {size}".lstrip(), rows)
        if folded.summary:
            rows.insert(len(folded.heaviest), Text(f"… {folded.summary}", "dim"))
        return [header, *rows]

    def _rows(self, placed: list[tuple[str, Cell]]) -> list[Text]:
        """Draw one line for each cell: place, count, share, bar."""
        wide = self.width >= WIDE_ENOUGH
        table = [
            (place, count_text(cell.count, self.verdict.unit), self._of_fair(cell, wide)) for place, cell in placed
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        room = min(LONGEST_BAR, self.width - sum(widths) - 3 * GAP)
        rows = []
        for (_, cell), (place, count, share) in zip(placed, table, strict=True):
            drawn = self._bar(cell, room) if room >= SHORTEST_BAR else ""
            row = Text(f"{place:<{widths[0]}}  {count:>{widths[1]}}  {share:<{widths[2]}}  ")
            rows.append(row.append(drawn, self._style(cell)))
        return rows

    def _of_fair(self, cell: Cell, wide: bool) -> str:
        named = word(cell.share, self.verdict.outcome)
        if cell.share is None or not math.isfinite(cell.share):
            return named if cell.share is None else share_text(cell.share)
        return f"{share_text(cell.share)}{f' {of_fair(cell.share)}' if wide else ''}, {named}"

    def _matrix(self) -> list[Text]:
        """Draw a column for each micro-batch, the counts beside the bars or below them."""
        found = {(cell.rank, cell.micro_batch): cell for cell in self.cells}
        rows = []
        for rank in self._ranks:
            row = [found.get((rank, column)) for column in self._columns]
            rows.append(self._joined(f"rank {rank}", [self._cell(cell) for cell in row]))
            if self._column_width < ONE_LINE_COLUMN:
                rows.append(self._joined("", [self._count(cell) for cell in row]))
        header = self._joined(self._step, [Text(f"micro-batch {column}") for column in self._columns])
        header.style = "dim"
        if all(cell.share is None for cell in self.cells):
            return [header, *rows]
        legend = "numbers are multiples of a fair share" + (f", which {FAIR_TICK} marks" if _ticked(rows) else "")
        return [header, *rows, Text(" " * self._label + legend, "dim")]

    def _cell(self, cell: Cell | None) -> Text:
        """Draw share and bar, and the count where it fits."""
        if cell is None:
            return Text("none", "dim")
        beside = self._column_width >= ONE_LINE_COLUMN
        count_width = max(len(count_text(one.count, self.verdict.unit)) for one in self.cells) if beside else -1
        number_width = max([4, *(len(share_text(one.share)) for one in self.cells if _is_number(one.share))])
        room = min(LONGEST_BAR, self._column_width - number_width - count_width - 2)
        text = Text(share_text(cell.share) if cell.share is not None else word(None, self.verdict.outcome))
        if _is_number(cell.share) and room >= SHORTEST_BAR:
            text.pad_right(number_width + 1 - text.cell_len)
            text.append(self._bar(cell, room), self._style(cell))
        text.pad_right(number_width + 1 + max(room, 0) - text.cell_len)
        return text.append(f" {count_text(cell.count, self.verdict.unit)}" if beside else "")

    def _count(self, cell: Cell | None) -> Text:
        return Text("" if cell is None else count_text(cell.count, self.verdict.unit), "dim")

    def _style(self, cell: Cell) -> str:
        return STYLES.get(word(cell.share, self.verdict.outcome), "")

    def _bar(self, cell: Cell, width: int) -> str:
        shares = [one.share for one in self.cells if one.share is not None and math.isfinite(one.share)]
        return bar(cell.share, max([1.0, *shares]), width)

    def _joined(self, label: str, cells: list[Text]) -> Text:
        line = Text(f"{label:<{self._label}}")
        for cell in cells:
            cell.pad_right(max(1, self._column_width + GAP - cell.cell_len))
            line.append_text(cell)
        return line


def _ticked(rows: list[Text]) -> bool:
    return any(FAIR_TICK in row.plain for row in rows)


def _is_number(share: float | None) -> bool:
    return share is not None and math.isfinite(share)


def _place(cell: Cell, columns: int) -> str:
    return f"rank {cell.rank}" + (f", micro-batch {cell.micro_batch}" if columns > 1 else "")


def bar(share: float | None, top: float, width: int) -> str:
    """Draw a share as a bar on a scale from 0 to `top`, with a tick at 1 where the bar does not reach it."""
    if share is None or not math.isfinite(share):
        return ""
    eighths = max(round(max(share, 0.0) / top * width * 8), 1 if share > 0 else 0)
    full, part = divmod(min(eighths, width * 8), 8)
    drawn = "█" * full + (EIGHTHS[part] if part else "")
    fair = max(0, math.ceil(width / top) - 1)
    return drawn if len(drawn) > fair else drawn.ljust(fair) + FAIR_TICK
