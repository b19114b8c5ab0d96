"""SARIF: a log of the standard's own model, one result for each finding, at a line of the script."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Log

from audit.report import samples
from failuremap.audit.model import Verdict
from failuremap.audit.report.sarif import UNNAMED, sarif

EVERY = [name for name, value in vars(samples).items() if isinstance(value, Verdict)]


def run_of(verdict):
    """The one run of a verdict's log."""
    (run,) = json.loads(sarif(verdict))["runs"]
    return run


@pytest.mark.parametrize("name", EVERY)
def test_every_verdict_makes_a_log_of_the_standard(name):
    text = sarif(getattr(samples, name))

    assert Log.model_validate_json(text).version.value == "2.1.0"


@pytest.mark.parametrize(
    "damage", [lambda run: run["results"][0].update(severity="bad"), lambda run: run["results"][0].pop("message")]
)
def test_the_model_of_the_standard_refuses_what_it_does_not_know(damage):
    log = json.loads(sarif(samples.COUNTS_IGNORED))
    damage(log["runs"][0])

    with pytest.raises(ValidationError):
        Log.model_validate(log)


def test_a_finding_is_an_error_under_the_rule_of_its_mechanism():
    run = run_of(samples.COUNTS_IGNORED)

    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("replica-means-ignore-counts", "error")
    assert result["message"]["text"] == samples.HEAVY_RANK
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["replica-means-ignore-counts"]


def test_the_place_is_the_line_that_calls_the_loss():
    verdict = samples.COUNTS_IGNORED.model_copy(
        update={
            "script": "jobs/train.py --epochs 1",
            "evidence": samples.COUNTS_IGNORED.evidence.model_copy(
                update={"loss_sites": ["cross_entropy(mean) at train.py:41"]}
            ),
        }
    )

    (result,) = run_of(verdict)["results"]
    assert result["locations"] == [
        {"physicalLocation": {"artifactLocation": {"uri": "jobs/train.py"}, "region": {"startLine": 41}}}
    ]


def test_a_loss_of_another_file_leaves_the_place_at_the_script():
    verdict = samples.COUNTS_IGNORED.model_copy(
        update={
            "script": "train.py",
            "evidence": samples.COUNTS_IGNORED.evidence.model_copy(
                update={"loss_sites": ["cross_entropy(mean) at trainer.py:900"]}
            ),
        }
    )

    (result,) = run_of(verdict)["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("train.py", 1)


def test_a_right_job_has_no_result_and_one_that_was_not_judged_an_open_one():
    assert run_of(samples.RIGHT)["results"] == []
    (result,) = run_of(samples.NOT_MEASURED)["results"]
    assert (result["ruleId"], result["kind"], result["level"]) == ("not-measured", "open", "none")


def test_a_finding_without_a_name_has_a_rule_that_says_so():
    finding = samples.COUNTS_IGNORED.findings[0].model_copy(update={"candidates": []})
    verdict = samples.COUNTS_IGNORED.model_copy(update={"findings": [finding]})

    assert run_of(verdict)["results"][0]["ruleId"] == UNNAMED
