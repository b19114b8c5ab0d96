"""The HTML report: one file that stands alone and asks nothing of a network."""

from __future__ import annotations

import math
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from failuremap.audit.model import Cell, Finding, Verdict
from failuremap.audit.report.cells import count_text, fold, main_cells, main_step, of_fair, share_text, word
from failuremap.audit.report.json_ import to_json
from failuremap.audit.report.outline import MARKS, about, context, leads, notes, rests_on
from failuremap.audit.report.repairs import repairs
from failuremap.audit.report.words import clean, visible

MOST_CELLS = 4096
KEPT_OF_MORE = 32
MOST_ROOMY_COLUMNS = 4
MOST_USUAL_COLUMNS = 8

# A cell has its full colour from 4 times a fair share, or a quarter, on; a skew of 1 % has still some.
FULL_DOUBLINGS = 2.0
FAINTEST = 0.08
# From these depths on, the text of a cell changes to the other ink: `mid` on a dark page, `deep` on both.
MID, DEEP = 0.65, 0.88
LEGEND = [(0.25, "¼ or less"), (0.35, ""), (0.5, "½"), (0.71, ""), (1.0, "fair"), (1.41, ""), (2.0, "2"), (2.83, "")]
LEGEND += [(4.0, "4 or more")]

_environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {"clean": clean}


def html(verdict: Verdict) -> str:
    """Draw a verdict as one HTML file, with the whole JSON at its end.

    Example:
        >>> html(Verdict(outcome="right", sentence="Every token weighs the same."))[:15]
        '<!doctype html>'
    """
    cells = main_cells(verdict)
    return _environment.get_template("verdict.html").render(
        verdict=verdict,
        mark=MARKS[verdict.outcome],
        context=context(verdict),
        findings=[_finding(finding, verdict, index) for index, finding in enumerate(verdict.findings)],
        picture=_picture(cells, verdict, main_step(verdict)),
        leads=leads(verdict),
        notes=notes(verdict),
        rests=rests_on(cells, verdict.evidence),
        json=visible(to_json(verdict)),
    )


def _finding(finding: Finding, verdict: Verdict, index: int) -> dict[str, object]:
    """Gather what is said of a finding; the picture of the first is the main one."""
    return {
        "sentence": clean(finding.sentence),
        "lines": about(finding, verdict),
        "parameters": [clean(name) for name in finding.parameters],
        "unnamed": max(0, finding.parameter_count - len(finding.parameters)),
        "repairs": [visible(text) for text in repairs(finding, verdict)],
        "picture": _picture(finding.cells, verdict, finding.cells_step) if index and finding.cells else None,
    }


def _picture(cells: list[Cell], verdict: Verdict, step: int | None) -> dict[str, object] | None:
    """Arrange cells: a tile a rank where there is one micro-batch, a table otherwise, the ends of too many."""
    if not cells:
        return None
    ranks = sorted({cell.rank for cell in cells})
    columns = sorted({cell.micro_batch for cell in cells})
    legend = [(*shade(share, "fair" if share == 1 else ""), label) for share, label in LEGEND]
    shared: dict[str, object] = {"legend": legend, "unit": clean(verdict.unit), "columns": columns, "summary": ""}
    shared |= {"measured": any(cell.share is not None for cell in cells), "step": step}
    if len(cells) > MOST_CELLS:
        folded = fold(cells, KEPT_OF_MORE)
        shown = folded.heaviest + folded.lightest
        return shared | {"kind": "tiles", "tiles": _tiles(shown, verdict, True), "summary": folded.summary}
    if len(columns) == 1:
        return shared | {"kind": "tiles", "tiles": _tiles(cells, verdict, False)}
    found = {(cell.rank, cell.micro_batch): _drawn(cell, verdict) for cell in cells}
    rows = [(rank, [found.get((rank, column)) for column in columns]) for rank in ranks]
    return shared | {"kind": "table", "rows": rows, "size": _size(len(columns))}


def _size(column_count: int) -> str:
    if column_count > MOST_USUAL_COLUMNS:
        return "compact"
    return "roomy" if column_count <= MOST_ROOMY_COLUMNS else "usual"


def _tiles(cells: list[Cell], verdict: Verdict, folded: bool) -> list[tuple[str, dict[str, str | int]]]:
    suffix = ", micro-batch {}" if folded else ""
    return [(f"rank {cell.rank}" + suffix.format(cell.micro_batch), _drawn(cell, verdict)) for cell in cells]


def _drawn(cell: Cell, verdict: Verdict) -> dict[str, str | int]:
    """Say how one cell looks: colour by class, the share, the word, and the rest for who points at it."""
    named = word(cell.share, verdict.outcome)
    measured = cell.share is not None and math.isfinite(cell.share)
    whole = f"{share_text(cell.share)} {of_fair(cell.share)}, " if measured and cell.share is not None else ""
    parts = [("coefficient", cell.coefficient), ("loss weight", cell.loss_weight)]
    shade_class, depth = shade(cell.share, named)
    return {
        "shade": shade_class,
        "depth": depth,
        "share": share_text(cell.share) if cell.share is None or math.isfinite(cell.share) else "",
        "word": "infinite" if cell.share == math.inf else named,
        "count": count_text(cell.count, verdict.unit),
        "more": whole
        + ", ".join(f"{name} {'not measured' if value is None else f'{value:.6g}'}" for name, value in parts),
    }


def shade(share: float | None, named: str) -> tuple[str, int]:
    """Choose the class of a cell and the depth of its colour in percent, on a log scale.

    The classes are `fair`, `light` and `heavy` (with `mid` or `deep`), `odd` and `unknown`.
    """
    if share is None or named == "fair":
        return ("unknown" if share is None else "fair"), 0
    if math.isnan(share) or share < 0:
        return "odd", 0
    doublings = math.log2(share) if 0 < share < math.inf else math.inf
    depth = min(1.0, max(FAINTEST, abs(doublings) / FULL_DOUBLINGS))
    ink = " deep" if depth >= DEEP else " mid" if depth >= MID else ""
    return ("heavy" if share > 1 else "light") + ink, round(100 * depth)
