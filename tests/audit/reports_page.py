"""Writes docs/reports.md: what public reports found, and what the audit says of a script in the manner of each.

python tests/audit/reports_page.py     run every script in both forms (minutes), and write the page
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from audit.harness import JobServer, Outcome, audit_case  # noqa: E402
from jobs.reports.table import REPORTS, Report  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "reports.md"
HEAD = """# What public reports found, and what the audit says

Each row is a public report of a training job whose gradients went wrong. The scripts of `tests/jobs/reports/` are
written in the manner of these reports, small enough for two processes on a CPU; none of their code was taken. A script
runs as reported, and with `--fixed` as repaired. Written by `python tests/audit/reports_page.py`; a test holds every
row to what the audit says.

Of {count} reports, in {families} families, the audit calls {wrong} wrong and {untold} "cannot tell" or "not measured";
{right} are called right, with the reason why what the report found is not seen. No repaired form is accused.

| report | what it found | what the audit says | names | repaired |
|---|---|---|---|---|
"""


def row(report: Report, broken: Outcome, fixed: Outcome) -> str:
    """The line of a report in the table."""
    said = broken.sentence if broken.outcome in {"wrong", "right"} else _with_reason(broken)
    if report.unseen:
        said += f" *Why: {report.unseen}.*"
    named = ", ".join(f"`{slug}`" for slug in broken.slugs) or "–"
    cells = [f"[{_short(report.url)}]({report.url})", report.finding, said, named, fixed.outcome]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _with_reason(outcome: Outcome) -> str:
    return f"{outcome.outcome.capitalize()}: {outcome.reasons[0]}." if outcome.reasons else outcome.sentence


def _short(url: str) -> str:
    return re.sub(r"https://github.com/(.+)/(?:issues|pull)/(\d+)", r"\1#\2", url)


def head() -> str:
    """The text above the table, with its counts."""
    outcomes = [report.outcomes[0] for report in REPORTS]
    return HEAD.format(
        count=len(REPORTS),
        families=len({report.family for report in REPORTS}),
        wrong=outcomes.count("wrong"),
        right=outcomes.count("right"),
        untold=len(REPORTS) - outcomes.count("wrong") - outcomes.count("right"),
    )


def main() -> int:
    """Run every script and write the page; return how many verdicts were not as expected."""
    rows, surprises = [], 0
    with JobServer() as server:
        for report in REPORTS:
            broken, fixed = (audit_case(server, case) for case in report.cases)
            rows.append(row(report, broken, fixed))
            for got in (broken, fixed):
                if not got.as_expected:
                    surprises += 1
                    print(f"{got.case.name}: {got.outcome} {got.slugs} {got.sentence} {got.reasons}", flush=True)
    PAGE.write_text(head() + "\n".join(rows) + "\n", encoding="utf-8")
    return surprises


if __name__ == "__main__":
    raise SystemExit(main())
