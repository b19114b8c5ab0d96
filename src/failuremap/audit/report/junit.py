"""A verdict as JUnit XML, which CI servers show as tests: one case for each thing that the audit holds the job to."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from failuremap.audit.model import Finding, Verdict
from failuremap.audit.report.words import clean

SUITE = "failuremap"
WHOLE = "the update is what the job promises"


def junit(verdict: Verdict) -> str:
    """The verdict as a document of JUnit XML.

    A right job is one case that passes; of a wrong one each finding is a case that fails. What could not be told, was
    not measured, or did not run to its end is an error: never a case that passes, and none that is skipped.
    """
    suite = ET.Element("testsuite", name=SUITE)
    where = clean(verdict.script) or "trace"
    for finding in verdict.findings:
        _add(suite, where, _name(finding), "failure", finding.sentence, _text(finding, verdict))
    if not verdict.findings:
        kind = None if verdict.outcome == "right" else "error"
        _add(suite, where, WHOLE, kind, verdict.sentence, "\n".join([*verdict.reasons, *verdict.notes]))
    cases = list(suite)
    for kind in ("failure", "error"):
        suite.set(f"{kind}s", str(sum(case.find(kind) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add(suite: ET.Element, where: str, name: str, kind: str | None, sentence: str, text: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=where, name=clean(name), time="0")
    if kind is None:
        ET.SubElement(case, "system-out").text = clean(text)
    else:
        said = ET.SubElement(case, kind, message=clean(sentence), type=kind)
        said.text = clean(text)


def _name(finding: Finding) -> str:
    return finding.candidates[0].slug if finding.candidates else WHOLE


def _text(finding: Finding, verdict: Verdict) -> str:
    lines = [
        finding.sentence, f"followed: {finding.followed}", f"promised: {finding.promised}",
        *(f"mechanism: {one.title} (failuremap show {one.slug})" for one in finding.candidates),
        *([f"repair: {finding.repair}"] if finding.repair else []), *verdict.reasons, *verdict.notes,
    ]  # fmt: skip
    return "\n".join(lines)
