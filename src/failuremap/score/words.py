"""Verdicts and reports in words: lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from failuremap.score.report import Difference, Interval, Report, SystemScore
from failuremap.score.results import Result
from failuremap.score.selftest import Check, Selftest
from failuremap.score.selftest.trial import KINDS
from failuremap.score.verdict import Verdict

_MIB = 1 << 20
_LABEL, _WIDTH = 12, 110
_NAMES = 6
_SHOWN = 300


def verdict_lines(verdict: Verdict) -> list[str]:
    """Lays out a verdict: the word and a sentence, then what they rest on.

    Example:
        >>> print(*verdict_lines(Verdict(outcome="crashed", sentence="solve raised ZeroDivisionError", case="FM-001")))
        ✗ crashed  FM-001  solve raised ZeroDivisionError
    """
    mark = {"accepted": "✓", "judge-error": "?"}.get(verdict.outcome, "✗")
    clauses = set(verdict.clauses.values())
    rows = {
        "broken": _clauses(verdict, held=False),
        "kept": _clauses(verdict, held=True),
        "not reached": _clauses(verdict, held=None) if clauses != {None} else "",
        "input": _input(verdict),
        "fixtures": _fixtures(verdict),
        "numerics": _numerics(verdict),
        "box": _box(verdict) if verdict.candidate_sha256 else "",
        "candidate": f"sha256 {verdict.candidate_sha256}" if verdict.candidate_sha256 else "",
    }
    lines = [f"{mark} {verdict.outcome}  {verdict.case}  {verdict.sentence}"]
    for label, text in rows.items():
        lines += textwrap.wrap(
            text, _WIDTH, initial_indent=f"  {label:<{_LABEL}}", subsequent_indent=" " * (_LABEL + 2)
        )
    return lines


def _input(verdict: Verdict) -> str:
    """Says where there was no answer; the sentence of a wrong one has its input in it."""
    shown = verdict.counterexample
    if shown is None or verdict.outcome == "wrong":
        return ""
    given, expected = (textwrap.shorten(text, _SHOWN, placeholder=" ...") for text in (shown.given, shown.expected))
    return f"solve({given}), where {expected} is right ({shown.fixture})"


def result_line(result: Result) -> str:
    """Says in one line what came of one sample of a suite."""
    verdict = result.verdict
    return f"{verdict.outcome:<11} {result.system} {result.family} {result.case} sample {result.sample}"


def report_lines(report: Report) -> Iterator[str]:
    """Lays out a report: what each system solves, by group, and how systems differ."""
    for system in report.systems:
        yield from _system_lines(system)
        yield ""
    yield from (_difference_line(found) for found in report.differences)
    revealed = "revealed in the results" if report.key else "kept by the operator"
    yield f"suite {report.suite}, key {report.key_commitment[:16]} ({revealed}), generator {report.generator_version}"


def check_line(check: Check) -> str:
    """Says in one line what came of one trial of the judge."""
    of = f" of {check.family}" if check.family else ""
    return f"{'ok    ' if check.holds else 'FAILED'} {check.kind} {check.name!r}{of}: {check.outcome}"


def selftest_lines(found: Selftest) -> Iterator[str]:
    """Lays out a selftest: by family, how many trials of each kind ended as they must; then what did not."""
    counts = found.counts()
    families = [name for name in counts if name]
    rows = [["family", "baselines refused", "repairs accepted", "attacks refused", "mutants refused"]]
    rows += [[name, *(_share(counts[name].get(kind, (0, 0))) for kind in KINDS)] for name in families]
    every = [check for check in found.checks if check.family and not check.equivalent]
    rows.append(["all", *(_share(_held_of(every, kind)) for kind in KINDS)])
    yield from table(rows)
    same = sum(check.equivalent for check in found.checks)
    yield f"{same} mutants more are the same function, and to be accepted; equivalent_mutants.json says why of each"
    if found.box_level is None:
        yield "no sound box opens here, so no escape was tried; install bubblewrap (apt install bubblewrap)"
    else:
        yield f"{_share(_held_of(found.checks, 'escape'))} escapes kept in, {found.box_level}"
    yield from (check_line(check) for check in found.failures)
    yield "all as it must be" if found.holds else "NOT as it must be: don't rely on this judge"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligns columns, the first row being their names."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _system_lines(score: SystemScore) -> Iterator[str]:
    per_family = f"{score.sample_count} sample{'s' * (score.sample_count != 1)} a family"
    yield f"{score.system}  {per_family}  {_counts(score.outcomes)}"
    for k, found in score.pass_at.items():
        yield f"  pass@{k:<4} {_interval(found)}"
    rows = [("group", "families", "pass@1")]
    rows += [(name, str(found.family_count), f"{found.value:.1%}") for name, found in score.groups.items()]
    yield from (f"  {line}" for line in table(rows))
    families = score.families
    yield from _named("no sample", [one.family for one in families if set(one.marks) == {"missing"}])
    partly = [one.family for one in families if "missing" in one.marks and set(one.marks) != {"missing"}]
    yield from _named("some samples or variants missing", partly)
    yield from _named("judge failed, not counted", [one.family for one in families if "judge-error" in one.marks])
    yield f"  boxes: {_counts(score.box_levels)}"


def _named(label: str, names: list[str]) -> Iterator[str]:
    if names:
        rest = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        yield f"  {label}: {', '.join(names[:_NAMES])}{rest}"


def _interval(found: Interval) -> str:
    text = f"{found.value:6.1%}"
    if found.standard_error is not None:
        text += f"  ± {found.standard_error:.1%}"
    if found.low is not None and found.high is not None:
        text += f"  95 % interval {found.low:.1%} to {found.high:.1%}"
    return f"{text}  ({found.family_count} families in {found.group_count} groups)"


def _difference_line(found: Difference) -> str:
    gap = found.difference
    text = f"{found.ours} less {found.theirs}: {gap.value * 100:+.1f} points of pass@1"
    if gap.low is None or gap.high is None or gap.standard_error is None:
        return f"{text}; no interval can be told"
    clear = "" if gap.low <= 0 <= gap.high else ", which excludes none"
    ends = f"{gap.low * 100:+.1f} to {gap.high * 100:+.1f}"
    return f"{text}, ± {gap.standard_error * 100:.1f}, 95 % interval {ends}{clear} ({gap.family_count} pairs)"


def _held_of(checks: Sequence[Check], kind: str) -> tuple[int, int]:
    found = [check.holds for check in checks if check.kind == kind]
    return sum(found), len(found)


def _share(counts: tuple[int, int]) -> str:
    return f"{counts[0]} of {counts[1]}"


def _counts(outcomes: dict[str, int]) -> str:
    return " · ".join(f"{count} {outcome}" for outcome, count in outcomes.items()) or "no verdict"


def _clauses(verdict: Verdict, *, held: bool | None) -> str:
    return ", ".join(name for name, found in verdict.clauses.items() if found is held)


def _fixtures(verdict: Verdict) -> str:
    counts = verdict.counts
    if not counts.public_total:
        return ""
    public = f"{counts.public_passed} of {counts.public_total} published"
    return f"{public}, {counts.held_back_passed} of {counts.held_back_total} held back"


def _numerics(verdict: Verdict) -> str:
    if verdict.numerics is None:
        return ""
    worst, free = verdict.numerics.worst_ulps, verdict.numerics.order_independent
    far = "" if worst is None else f"at most {worst:.2g} units in the last place from the exact result"
    order = {True: "the same bits in any order", False: "the last bits depend on the order", None: ""}[free]
    return "; ".join(filter(None, (far, order)))


def _box(verdict: Verdict) -> str:
    used = verdict.usage
    return f"{verdict.box_level}, {used.cpu_s:.2f} s CPU, {used.memory_bytes / _MIB:.0f} MiB"
