"""The audit's verdict on scripts in the manner of public reports, as reported and as repaired."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.harness import JOBS, JobServer, audit_case
from audit.reports_page import PAGE, head, row
from jobs.reports.table import REPORTS, Report

pytestmark = pytest.mark.torch
COLLECTED = Path(__file__).parents[3] / "shared" / "reports" / "reports.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("report", [pytest.param(report, id=report.script) for report in REPORTS])
def test_the_report_is_told_and_its_repair_is_not_accused(job_server: JobServer, report: Report) -> None:
    broken, fixed = (audit_case(job_server, case) for case in report.cases)

    for got in (broken, fixed):
        assert got.as_expected, f"{got.case.name}: {got.outcome} {got.slugs}: {got.sentence} {got.reasons}"
    assert report.varies or row(report, broken, fixed) in PAGE.read_text(encoding="utf-8").splitlines()


def test_every_script_stands_in_the_table_once() -> None:
    scripts = {path.stem for path in (JOBS / "reports").glob("*.py")} - {"table", "toys"}

    assert sorted(report.script for report in REPORTS) == sorted(scripts)


def test_the_page_has_the_rows_of_the_table_in_order() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text.startswith(head())
    assert [line.split("](")[1].split(")")[0] for line in text[len(head()) :].splitlines()] == [r.url for r in REPORTS]


def test_a_broken_form_that_is_not_named_says_why() -> None:
    assert [report.script for report in REPORTS if not report.slugs and not report.unseen] == []
    assert [report.script for report in REPORTS if "wrong" in report.fixed] == []


def test_there_are_thirty_reports_of_fifteen_families_or_more() -> None:
    assert len(REPORTS) >= 30
    assert len({report.family for report in REPORTS}) >= 15


def test_reports_are_those_that_were_collected() -> None:
    if not COLLECTED.exists():
        pytest.skip("the collection of reports is not here")
    families = {json.loads(line)["url"]: json.loads(line)["family"] for line in COLLECTED.read_text().splitlines()}

    assert {report.url: report.family for report in REPORTS}.items() <= families.items()
