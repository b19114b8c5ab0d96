"""A report as an SVG: a point and an interval for each system, and a point for each evaluation group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from failuremap.score.report import Interval, Report

_LEFT, _RIGHT, _WIDTH = 250, 200, 820
_ROW, _GAP, _HEAD, _FOOT = 18, 10, 44, 40

Point = tuple[str, Interval, str]
_COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be185d")
_STYLE = """text{font:13px system-ui,sans-serif;fill:#1f2328}.note{fill:#59636e;font-size:12px}.head{font-weight:600}
.axis{stroke:#d1d9e0}@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}.axis{stroke:#3d444d}
.paper{fill:#0d1117}}"""


def svg(report: Report) -> str:
    """Draws a report as an SVG that stands alone: pass@1 over all families first, then group by group.

    A short line is an interval of 95 % whose error is clustered by evaluation group. A group has none of its own: its
    families tell of each other.
    """
    blocks = list(_blocks(report))
    height = _HEAD + sum(_ROW * len(points) + _GAP for _, points in blocks) + _FOOT
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(_summary(report))}">',
        f'<style>{_STYLE}</style><rect class="paper" width="100%" height="100%" fill="#fff"/>',
        f'<text class="head" x="16" y="24">pass@1, suite {escape(report.suite)}</text>',
        *_axis(height),
    ]
    y = _HEAD + _ROW // 2
    for label, points in blocks:
        parts.append(f'<text x="16" y="{y + 4}">{escape(label)}</text>')
        for name, interval, colour in points:
            parts += _point(y, name, interval, colour)
            y += _ROW
        y += _GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


def _blocks(report: Report) -> Iterator[tuple[str, list[Point]]]:
    """Yields a label with the points below it: system, interval, colour."""
    colours = {score.system: _COLOURS[place % len(_COLOURS)] for place, score in enumerate(report.systems)}

    def points(found: Iterable[tuple[str, Interval | None]]) -> list[Point]:
        return [(system, interval, colours[system]) for system, interval in found if interval]

    yield "all families", points((score.system, score.pass_at.get(1)) for score in report.systems)
    for group in sorted({group for score in report.systems for group in score.groups}):
        yield group, points((score.system, score.groups.get(group)) for score in report.systems)


def _axis(height: int) -> Iterator[str]:
    for percent in range(0, 101, 25):
        x = _x(percent / 100)
        yield f'<line class="axis" x1="{x}" y1="{_HEAD}" x2="{x}" y2="{height - _FOOT}"/>'
        yield f'<text class="note" x="{x}" y="{height - _FOOT + 18}" text-anchor="middle">{percent} %</text>'


def _point(y: int, name: str, interval: Interval, colour: str) -> Iterator[str]:
    whole = interval.group_count > 1
    if whole and interval.low is not None and interval.high is not None:
        ends = f'x1="{_x(interval.low)}" y1="{y}" x2="{_x(interval.high)}" y2="{y}"'
        yield f'<line {ends} stroke="{colour}" stroke-width="2"/>'
    yield f'<circle cx="{_x(interval.value)}" cy="{y}" r="{5 if whole else 4}" fill="{colour}"/>'
    note = f"{interval.value:.0%} of {interval.family_count}"
    yield f'<text class="note" x="{_WIDTH - _RIGHT + 24}" y="{y + 4}">{escape(_short(name))} {note}</text>'


def _x(share: float) -> float:
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def _short(name: str, most: int = 16) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _summary(report: Report) -> str:
    """Says in words what the picture shows, for those who can't see it."""
    told = [f"{score.system} {score.pass_at[1].value:.0%}" for score in report.systems if 1 in score.pass_at]
    return f"pass@1 of the suite {report.suite}: {', '.join(told) or 'nothing counted'}"
