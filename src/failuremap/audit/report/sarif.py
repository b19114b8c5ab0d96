"""A verdict as SARIF 2.1.0, which code hosts show beside the lines of a script: one result for each finding.

The rules are the mechanisms that fit. The place is the line that calls the loss, if the audit knows it, or the script.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import PurePath
from typing import Any

from failuremap import __version__
from failuremap.audit.model import Finding, Verdict
from failuremap.audit.report.words import clean

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
UNNAMED = "a-wrong-rule-without-a-name"
_SITE = re.compile(r"at (?P<file>[^\s:]+\.py):(?P<line>\d+)")


def sarif(verdict: Verdict) -> str:
    """The verdict as a SARIF log with one run; a job that could not be judged has a result of the kind "open"."""
    results = [_result(finding, verdict) for finding in verdict.findings]
    if not results and verdict.outcome != "right":
        results = [_open(verdict)]
    rules = [*map(_rule, verdict.findings), *map(_rule, _unjudged(verdict))]
    driver = {
        "name": "failuremap",
        "version": __version__,
        "rules": list({rule["id"]: rule for rule in rules}.values()),
    }
    ended = verdict.script_exit_code in (None, 0)
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": ended, "commandLine": clean(verdict.script)}],
        "results": results,
        "properties": {"outcome": verdict.outcome, "sentence": verdict.sentence, "notes": verdict.notes},
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _unjudged(verdict: Verdict) -> list[str]:
    return [verdict.outcome.replace(" ", "-")] if not verdict.findings and verdict.outcome != "right" else []


def _rule(of: Finding | str) -> dict[str, Any]:
    if isinstance(of, str):
        return {"id": of, "shortDescription": {"text": f"The audit's outcome is: {of.replace('-', ' ')}."}}
    if not of.candidates:
        return {"id": UNNAMED, "shortDescription": {"text": "None of the catalogue's mechanisms fits."}}
    first = of.candidates[0]
    help_text = of.repair or f"failuremap show {first.slug}"
    return {"id": first.slug, "shortDescription": {"text": first.title}, "help": {"text": help_text}}


def _result(finding: Finding, verdict: Verdict) -> dict[str, Any]:
    others = [one.slug for one in finding.candidates[1:]]
    return {
        "ruleId": _rule(finding)["id"],
        "level": "error",
        "message": {"text": clean(finding.sentence)},
        "locations": _locations(verdict, finding.term or ""),
        "partialFingerprints": {"finding/v1": f"{_rule(finding)['id']} {finding.term or ''}".strip()},
        "properties": {"followed": finding.followed, "promised": finding.promised, "alsoFits": others},
    }


def _open(verdict: Verdict) -> dict[str, Any]:
    text = " ".join([verdict.sentence, *verdict.reasons])
    (rule,) = _unjudged(verdict)
    return {
        "ruleId": rule,
        "kind": "open",
        "level": "none",
        "message": {"text": clean(text)},
        "locations": _locations(verdict, ""),
    }


def _locations(verdict: Verdict, term: str) -> list[dict[str, Any]]:
    """The line that calls the loss, if it is in the script; else the script's first line; [] without a script."""
    script = next((word for word in _words(verdict.script) if word.endswith(".py")), "")
    site = next(filter(None, map(_SITE.search, [term, *verdict.evidence.loss_sites])), None)
    if not script and site is None:
        return []
    file, line = script, 1
    if site is not None and (not script or PurePath(script).name == site["file"]):
        file, line = script or site["file"], int(site["line"])
    place = {"artifactLocation": {"uri": PurePath(file).as_posix()}, "region": {"startLine": line}}
    return [{"physicalLocation": place}]


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
