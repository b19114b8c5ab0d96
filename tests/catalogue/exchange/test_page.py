"""The text of a page: read strictly, checked like a record, and written back."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalogue.exchange.making import case_of
from catalogue.exchange.test_importing import failing, imported
from failuremap.catalogue.exchange.page import PageRecord, parse_page, write_page
from failuremap.errors import RecordError

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"


def page_text() -> str:
    """Write the page of a case of ours."""
    case = case_of("replica-means-ignore-counts")
    stages = {
        stage: {
            "exit_code": run.exit_code,
            "source": getattr(case.implementations, stage).source.removesuffix("\n"),
            "observations": [seen.model_dump() for seen in run.observations],
            "sha256": getattr(case.implementations, stage).sha256,
        }
        for stage, run in case.to_open().runs().items()
    }
    same = ("id", "category", "title", "abstract", "variant", "checks", "root_cause", "failure", "failed_approach")
    document = {name: getattr(case, name) for name in (*same, "relevance", "limitations", "sha256")} | stages
    document |= {"tier": "Open access", "contract": case.contract.text, "member_checks": case.checks}
    document |= {"python": "3.12.0", "generated_at": "2026-11-30T00:00:00+00:00"}
    return write_page(PageRecord.model_validate(document, strict=False))


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the published records are not beside the checkout")
def test_the_published_page_holds_what_it_claims_and_comes_back_byte_for_byte(tmp_path):
    text = (SEEDS / "FA-99246.page.txt").read_text(encoding="utf-8")

    one = imported(tmp_path, text, "page.txt")

    assert (one.record, one.form, failing(one)) == ("FA-99246", "page", {})
    assert {claim.claim for claim in one.claims if claim.result == "cannot be checked"} == {
        "Verified by execution", "Observations recorded using", "Case digest",
    }  # fmt: skip
    assert write_page(parse_page(text, "page")) == text


def test_a_page_of_ours_holds_what_it_claims_and_comes_back(tmp_path):
    text = page_text()

    assert failing(imported(tmp_path, text)) == {}
    assert write_page(parse_page(text, "page")) == text


def test_line_ends_and_a_last_newline_are_the_browsers_own(tmp_path):
    text = page_text()

    assert write_page(parse_page(text.replace("\n", "\r\n") + "\n", "page")) == text


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("SHA-256 / ", "SHA-256 / 0", ""),
        ("Exit 1", "Exit 0", "verification.broken.exit_code"),
        ("7 checks per", "8 checks per", "verification.broken.observations"),
        ("7 recorded checks", "6 recorded checks", "checks of the withheld stage"),
        ("Variant 1", "Variant 2", "variant"),
        ("Open access", "Member access", "visibility"),
        ("`[2.0, 3.0]`", "`[2.5, 3.0]`", "verification.broken: re-run"),
        ("\tFailed", "\tPassed", "verification.broken.observations.passed"),
        ("sum(row[0][j]", "2*sum(row[0][j]", "implementations.broken.sha256"),
    ],
)
def test_a_false_claim_of_a_page_fails(tmp_path, old, new, claim):
    found = failing(imported(tmp_path, page_text().replace(old, new, 1)))

    assert (claim or "form") in found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ROOT CAUSE", "CAUSE", "checks: expected a text on the page, and 'checks per implementationDownload"),
        ("Exit 1", "Exit one", "broken.exit_code='one' is no number."),
        (
            "\tFailed",
            "\tPerhaps",
            "broken.observations: 'unequal batch sizes\\t`[2.0, 3.0]`\\t`[2.5, 3.5]`\\tPerhaps' is",
        ),
        ("`[2.0, 3.0]`", "`NaN`", "NaN is no JSON"),
        ("\nequal sizes\t", "\nunequal batch sizes\t", "check='unequal batch sizes' is there twice"),
        ("SHA-256 / ", "SHA-256 / 0", "broken.sha256='0"),
        ("Variant 1", "Variant 9", "variant=9: input should be less than or equal to 5."),
    ],
)
def test_a_page_of_another_form_is_one_error_that_names_the_place(old, new, message):
    text = page_text()
    assert old in text

    with pytest.raises(RecordError) as refused:
        parse_page(text.replace(old, new, 1), "page")

    assert message in str(refused.value)
    assert str(refused.value).startswith("record='page")
