"""The recorded audits: one for each training script, and nothing of what members alone may read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from failuremap.catalogue import live, mechanisms
from failuremap.site import audits
from failuremap.site.audits import audit_command, recorded_audit

SLUGS = sorted(path.stem.replace("_", "-") for path in Path(live.__file__).parent.glob("[!_]*.py"))
RECORDED = Path(audits.__file__).parent / "recorded"


def test_each_training_script_has_a_recorded_audit_and_no_other_mechanism_has_one():
    assert sorted(path.stem for path in RECORDED.glob("*.json")) == SLUGS
    assert recorded_audit("no-such-mechanism") is None


@pytest.mark.parametrize("slug", SLUGS)
def test_a_recorded_audit_is_that_of_the_script_and_names_the_mechanism(slug):
    verdict = recorded_audit(slug)

    assert verdict.script == audit_command(slug)[-1]
    named = {one.slug for finding in verdict.findings for one in finding.candidates}
    assert (slug in named) != bool(mechanisms()[slug].audit_blind)


@pytest.mark.parametrize("slug", SLUGS)
def test_a_recorded_audit_holds_no_repair(slug):
    assert mechanisms()[slug].repair not in (RECORDED / f"{slug}.json").read_text(encoding="utf-8")
    assert all(not finding.repair for finding in recorded_audit(slug).findings)


def test_negative_control_a_verdict_with_a_repair_is_recorded_without_it():
    whole = recorded_audit("replica-means-ignore-counts")
    finding = whole.findings[0].model_copy(update={"repair": "divide once"})
    cut = audits._without_repairs(whole.model_copy(update={"findings": [finding]}))

    assert cut == whole


def test_the_packages_of_the_browser_tests_are_pinned_and_name_no_host():
    folder = Path(__file__).parent
    lock = (folder / "package-lock.json").read_text(encoding="utf-8")
    wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))["devDependencies"]

    assert "http" not in lock
    assert {name: json.loads(lock)["packages"][f"node_modules/{name}"]["version"] for name in wanted} == wanted
