"""A verdict's cells as a picture: ranks x micro-batches, each cell coloured by what one unit weighs in the update."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from failuremap.audit.model import Cell, Verdict
from failuremap.audit.report.cells import count_text, main_cells, of_fair, share_text, word
from failuremap.audit.report.html import shade
from failuremap.site.frame import environment

MOST_RANKS = 8
MOST_MICRO_BATCHES = 8

# Measures of the drawing, in its own units: about a pixel each on a small screen.
_LABEL_WIDTH, _HEAD_HEIGHT, _GAP = 56, 26, 4
_CELL_WIDTH, _CELL_HEIGHT = 112, 58
_LONE_CELL_WIDTH, _BAR_WIDTH = 150, 190


@dataclass(frozen=True)
class Drawn:
    """One cell as it is drawn.

    Attributes:
        x: Left edge.
        y: Upper edge.
        shade: Class of its colour and of its ink.
        depth: How full the colour is, 0 to 1.
        share: What one unit weighs, as a multiple of a fair share.
        word: `fair`, `light`, `heavy`, ...
        count: How many units it has.
        bar: Length of its bar; 0 for none.
        said: The cell in a sentence.
    """

    x: int
    y: int
    shade: str
    depth: float
    share: str
    word: str
    count: str
    bar: int
    said: str


@dataclass(frozen=True)
class Grid:
    """Where things stand in a picture.

    Attributes:
        ranks: The rows.
        micro_batches: The columns; the cells of a lone one are wider, and have bars beside them.
        top: The largest share, 1 or more.
    """

    ranks: list[int]
    micro_batches: list[int]
    top: float

    @property
    def has_bars(self) -> bool:
        """Whether there is room for bars."""
        return len(self.micro_batches) == 1

    @property
    def cell_width(self) -> int:
        """Of all cells."""
        return _LONE_CELL_WIDTH if self.has_bars else _CELL_WIDTH

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the whole picture."""
        bars = _BAR_WIDTH + 2 * _GAP if self.has_bars else 0
        width = _LABEL_WIDTH + len(self.micro_batches) * (self.cell_width + _GAP) + bars
        return width, _HEAD_HEIGHT + len(self.ranks) * (_CELL_HEIGHT + _GAP)

    @property
    def fair(self) -> int:
        """Where a bar of a fair share ends."""
        return self.x_of(self.micro_batches[0]) + self.cell_width + 2 * _GAP + self.bar(1.0)

    def x_of(self, micro_batch: int) -> int:
        """The left edge of a column."""
        return _LABEL_WIDTH + self.micro_batches.index(micro_batch) * (self.cell_width + _GAP)

    def y_of(self, rank: int) -> int:
        """The upper edge of a row."""
        return _HEAD_HEIGHT + self.ranks.index(rank) * (_CELL_HEIGHT + _GAP)

    def bar(self, share: float) -> int:
        """The length of a share's bar."""
        return round(_BAR_WIDTH * max(share, 0.0) / self.top)


def picture(verdict: Verdict, name: str) -> Markup:
    """Returns the cells of a verdict as SVG with its text alternative; nothing where no cell was measured.

    Of more than 8 ranks or 8 micro-batches the first 8 are drawn, and the alternative says how many cells are not.

    Args:
        verdict: What an audit said.
        name: Begins the ids that the picture needs on its page.
    """
    cells = main_cells(verdict)
    ranks = sorted({cell.rank for cell in cells})[:MOST_RANKS]
    micro_batches = sorted({cell.micro_batch for cell in cells})[:MOST_MICRO_BATCHES]
    shown = [cell for cell in cells if cell.rank in ranks and cell.micro_batch in micro_batches]
    shares = [cell.share for cell in shown if _is_measured(cell.share)]
    if not shares:
        return Markup()
    grid = Grid(ranks, micro_batches, max([1.0, *(share for share in shares if share is not None)]))
    drawing = environment.get_template("picture.svg").render(
        name=name,
        title=verdict.sentence,
        grid=grid,
        cell_height=_CELL_HEIGHT,
        cells=[_drawn(cell, verdict, grid) for cell in shown],
        left_out=len(cells) - len(shown),
    )
    return Markup(drawing)  # noqa: S704 (the template escapes)


def _is_measured(share: float | None) -> bool:
    return share is not None and math.isfinite(share)


def _drawn(cell: Cell, verdict: Verdict, grid: Grid) -> Drawn:
    named, share = word(cell.share, verdict.outcome), share_text(cell.share)
    count = count_text(cell.count, verdict.unit)
    kind, depth = shade(cell.share, named)
    measured = cell.share if _is_measured(cell.share) else None
    what = named if measured is None else f"{share} {of_fair(measured)}, {named}"
    return Drawn(
        x=grid.x_of(cell.micro_batch),
        y=grid.y_of(cell.rank),
        shade=kind,
        depth=depth / 100,
        share=share,
        word=named,
        count=count,
        bar=grid.bar(measured or 0.0) if grid.has_bars else 0,
        said=f"Rank {cell.rank}, micro-batch {cell.micro_batch}, {count}: {what}.",
    )
