"""Ranks x micro-batches: the cells of a picture, the word for each share, and the fold of too many."""

from __future__ import annotations

import math
from dataclasses import dataclass

from failuremap.audit.model import Cell, Outcome, Verdict
from failuremap.audit.report.words import clean, decimal, plural, shorten

# A share this near to 1 is called fair. A right verdict has judged its shares already, at the precision of the
# job's number format, so the picture does not contradict it; elsewhere a skew of 1 % is to be seen.
FAIR_MARGIN = 0.005
FAIR_MARGIN_WHEN_RIGHT = 0.05
MOST_UNIT_LETTERS = 16
LARGE_SHARE = 10.0


def main_cells(verdict: Verdict) -> list[Cell]:
    """Choose the cells of the sentence: those of the first finding, else those of the representative step."""
    first = verdict.findings[0].cells if verdict.findings else []
    return sorted(first or verdict.cells, key=lambda cell: (cell.rank, cell.micro_batch))


def main_step(verdict: Verdict) -> int | None:
    """Name the step that `main_cells` show; None where the verdict does not say."""
    own = verdict.findings and verdict.findings[0].cells
    return verdict.findings[0].cells_step if own else verdict.cells_step


def word(share: float | None, outcome: Outcome) -> str:
    """Name a share: `fair`, `light`, `heavy`, `no weight`, `negative`, or that there is none to name."""
    margin = FAIR_MARGIN_WHEN_RIGHT if outcome == "right" else FAIR_MARGIN
    if share is None:
        return "not measured"
    if math.isnan(share):
        return "not a number"
    if share <= 0:
        return "no weight" if share == 0 else "negative"
    if abs(share - 1) <= margin:
        return "fair"
    return "heavy" if share > 1 else "light"


def share_text(share: float | None) -> str:
    """Write a share with two places, a large one with one; `?` where it was not measured."""
    return "?" if share is None else decimal(share, 1 if abs(share) >= LARGE_SHARE else 2)


def of_fair(share: float) -> str:
    """Say what goes behind a share: `27.0 times a fair share`, `0.72 of a fair share`."""
    return "times a fair share" if share > 1 and share_text(share) != "1.00" else "of a fair share"


def count_text(count: float | None, unit: str) -> str:
    """Write a count with its unit; a count that was not seen says so."""
    noun = shorten(clean(unit), MOST_UNIT_LETTERS)
    return f"{noun}s not seen" if count is None else plural(count, noun)


@dataclass(frozen=True)
class Fold:
    """Too many cells to show: the ends of their order by share, and how many lie between."""

    heaviest: list[Cell]
    between: list[Cell]
    lightest: list[Cell]
    unmeasured: int

    @property
    def summary(self) -> str:
        """Say what is not shown."""
        said = [self._between()] if self.between else []
        if self.unmeasured:
            said.append(f"{plural(self.unmeasured, 'cell')} not measured")
        return "; ".join(said)

    def _between(self) -> str:
        most = self.between[0].share or 0.0
        low, high = share_text(self.between[-1].share), share_text(most)
        span = f"all {low}" if low == high else f"from {low} to {high}"
        return f"{plural(len(self.between), 'cell')} between, {span} {of_fair(most)}"


def fold(cells: list[Cell], keep: int) -> Fold:
    """Keep this many of the heaviest and of the lightest cells."""
    measured = [cell for cell in cells if cell.share is not None and not math.isnan(cell.share)]
    ordered = sorted(measured, key=lambda cell: -(cell.share or 0.0))
    heaviest, rest = ordered[:keep], ordered[keep:]
    split = max(0, len(rest) - keep)
    return Fold(heaviest, rest[:split], rest[split:], len(cells) - len(measured))
