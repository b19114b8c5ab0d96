"""What counts as solved, what counts neither way, and what a report and its picture say of it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft202012Validator

from failuremap.score.plot import svg
from failuremap.score.report import make_report, schema_text, score_system, to_json
from failuremap.score.results import Result, new_season
from failuremap.score.suite import families
from failuremap.score.verdict import Verdict
from failuremap.score.words import report_lines

SLUG, NUMBER = "partials-averaged", "FM-002"
OTHER = "replica-means-ignore-counts"


def result(family=SLUG, case=NUMBER, sample=1, outcome="accepted", system="me"):
    verdict = Verdict(outcome=outcome, sentence="", case=case, mechanism=family, box_level="box-3")
    return Result(system=system, family=family, case=case, sample=sample, verdict=verdict)


def marks(*results):
    score = score_system("open", "me", list(results))
    return next(one.marks for one in score.families if one.family == SLUG)


def everything(outcome="accepted", system="me", samples=1):
    return [
        result(slug, f"FM-{entry.number:03d}", number, outcome, system)
        for slug, entry in families("open").items()
        for number in range(1, samples + 1)
    ]


def by_variant(*outcomes):
    return [result(case=f"{NUMBER}-{n}", outcome=outcome) for n, outcome in enumerate(outcomes, start=1)]


@pytest.mark.parametrize("outcome", ["wrong", "crashed", "timeout", "memory", "output", "malformed"])
def test_a_family_is_solved_by_an_accepted_sample_alone(outcome):
    assert marks(result()) == ("solved",)
    assert marks(result(outcome=outcome)) == ("not solved",)


def test_case_by_case_a_family_is_solved_only_by_all_five_variants():
    assert marks(*by_variant(*["accepted"] * 5)) == ("solved",)
    assert marks(*by_variant(*["accepted"] * 4, "wrong")) == ("not solved",)
    assert marks(*by_variant(*["accepted"] * 4)) == ("missing",)


def test_a_judge_error_counts_neither_way_unless_another_variant_is_wrong():
    assert marks(result(outcome="judge-error")) == ("judge-error",)
    assert marks(*by_variant(*["accepted"] * 4, "judge-error")) == ("judge-error",)
    assert marks(*by_variant(*["accepted"] * 3, "wrong", "judge-error")) == ("not solved",)


def test_a_judge_error_leaves_pass_at_1_as_if_it_had_not_been_asked():
    whole = everything()
    failed = [result(outcome="judge-error") if one.family == SLUG else one for one in whole]

    found = score_system("open", "me", failed).pass_at[1]
    assert (found.value, found.family_count) == (1.0, len(whole) - 1)


def test_a_sample_that_is_missing_is_not_solved():
    assert marks(result(sample=3)) == ("missing", "missing", "solved")
    assert score_system("open", "me", [result()]).pass_at[1].value == pytest.approx(1 / len(families("open")))


def test_pass_at_k_is_told_for_every_k_that_there_are_samples_for():
    half = [
        one if one.sample == 1 else result(one.family, one.case, one.sample, "wrong") for one in everything(samples=2)
    ]
    found = score_system("open", "me", half)

    assert {k: interval.value for k, interval in found.pass_at.items()} == {1: 0.5, 2: 1.0}
    assert set(score_system("open", "me", everything(samples=6)).pass_at) == {1, 5, 6}


def test_two_systems_are_compared_family_by_family():
    season, _ = new_season("open", None)
    theirs = [
        result(one.family, one.case, 1, "wrong" if one.family in (SLUG, OTHER) else "accepted", "a")
        for one in everything()
    ]
    report = make_report(season, [*everything(), *theirs])

    (found,) = report.differences
    assert (found.ours, found.theirs) == ("a", "me")
    assert found.difference.value == pytest.approx(-2 / len(families("open")))
    assert found.difference.low < found.difference.value < found.difference.high


def test_a_system_without_a_result_has_a_place():
    season, _ = new_season("open", None)
    report = make_report(season, [], ["silent"])

    assert report.systems[0].pass_at[1].value == 0.0
    assert "silent  1 sample a family  no verdict" in list(report_lines(report))


def test_the_text_says_what_is_missing_and_what_did_not_count():
    season, _ = new_season("open", None)
    report = make_report(season, [result(sample=2), result(OTHER, "FM-001", 1, "judge-error")])
    text = "\n".join(report_lines(report))

    assert "me  2 samples a family  1 accepted · 1 judge-error" in text
    assert "judge failed, not counted: replica-means-ignore-counts" in text
    assert "some samples or variants missing: partials-averaged, replica-means-ignore-counts" in text
    assert "no sample: aux-term-other-denominator, average-divides-by-elements," in text and " more" in text
    assert "(revealed in the results)" in text


def test_the_json_is_what_the_schema_says():
    season, _ = new_season("open", b"k" * 32)
    report = make_report(season, [*everything(), *everything("wrong", "other")])
    validator = Draft202012Validator(json.loads(schema_text()))

    validator.validate(json.loads(to_json(report)))
    assert not validator.is_valid({**json.loads(to_json(report)), "suite": "shut"})


def test_the_schema_is_published():
    published = Path(__file__).parents[2] / "docs" / "score-report.schema.json"

    assert published.read_text(encoding="utf-8") == schema_text()


def test_the_picture_has_a_point_for_each_system_overall_and_in_each_group_and_escapes_names():
    season, _ = new_season("open", None)
    report = make_report(season, [*everything(system="a <b> & c"), *everything("wrong", "z")])
    root = ET.fromstring(svg(report))

    names = {"svg": "http://www.w3.org/2000/svg"}
    groups = {entry.group for entry in families("open").values()}
    assert len(root.findall("svg:circle", names)) == 2 * (1 + len(groups))
    assert root.get("aria-label") == "pass@1 of the suite open: a <b> & c 100%, z 0%"


def test_the_picture_of_nothing_is_a_picture():
    season, _ = new_season("open", None)

    assert "nothing counted" in svg(make_report(season, everything("judge-error")))
