"""The page of a mechanism: every part of its record, in the order of the published page, for all variants."""

from __future__ import annotations

import html
import json
import re

import pytest

from catalogue.exchange.making import all_cases
from failuremap.catalogue import render
from failuremap.catalogue.shelf import mechanism
from failuremap.site import addresses
from failuremap.site.content import content_of
from failuremap.site.frame import Frame
from failuremap.site.pages import case as case_pages
from failuremap.site.pages import mechanism as mechanism_pages
from site_pages import Page

SLUG = "partials-averaged"


@pytest.fixture(scope="module")
def frame(content) -> Frame:
    return Frame(content)


@pytest.fixture(scope="module")
def made(frame) -> dict[str, str]:
    return dict(mechanism_pages.pages(frame))


@pytest.fixture(scope="module")
def text(made) -> str:
    return made[addresses.mechanism_page(SLUG)]


@pytest.fixture(scope="module")
def page(text) -> Page:
    return Page(text)


@pytest.fixture(scope="module")
def family(content):
    return content.families[SLUG]


def test_the_parts_stand_in_the_order_of_the_published_page(page, family):
    case = family.first
    parts = [
        case.category, family.title, case.abstract, "Verified by execution", f"{case.checks} checks per implementation",
        "Source bundle of FM-002-1", "FM-002-1.json", case.root_cause, case.failure, case.failed_approach,
        case.contract.text, case.relevance, "1 / The failure", "2 / The unsuccessful fix", "Held in the member archive",
        case.audit.sees, "How to repair it", "Related mechanisms", "Public reports", case.limitations,
        "CPython 3.11 to 3.13", case.sha256,
    ]  # fmt: skip

    body = page.text[page.text.index("FM-002") :]
    places = [body.index(" ".join(part.split())) for part in parts]
    assert places == sorted(places)


def test_every_clause_of_the_contract_is_there_with_an_address(page, family):
    for clause in family.first.contract.clauses:
        assert f"clause-{clause.id}" in page.ids and clause.text in page.text


@pytest.mark.parametrize("stage", ["broken", "attempt"])
def test_each_stage_shows_its_script_exit_code_digest_and_rows(page, text, family, stage):
    section = text[text.index(f'<section id="{stage}"') :].partition("</section>")[0]
    source = re.search(r'<pre class="source"[^>]*><code>(.*?)</code></pre>', section, re.DOTALL)[1]
    chosen = re.sub(r'<i class="m of of-[2-5]">\d</i>', "", source)
    run = family.first.runs()[stage]

    assert html.unescape(re.sub("<[^>]*>", "", chosen)) == render(mechanism(SLUG), stage, 1)
    assert f"Exit {run.exit_code}" in section and getattr(family.first.implementations, stage).sha256 in section
    rows = re.findall(r"<tr( class=\"failed\")?><th scope=\"row\">([^<]*)(<td>.*)", section)
    seen = [(bool(mark), label, "<td>✗ Failed<" in rest, "<td>Passed<" in rest) for mark, label, rest in rows]
    wanted = [
        (not o.passed, o.check, not o.passed, o.passed) for c in family.cases for o in c.runs()[stage].observations
    ]
    assert seen == wanted


def test_each_variant_has_an_address_and_its_own_files(page, family):
    for case in family.cases:
        assert f"case-{case.variant}" in page.ids and f"#case-{case.variant}" in page.links
        for file in (
            addresses.bundle_file(case.id),
            addresses.json_of(addresses.case_page(case.id)),
            addresses.case_page(case.id),
        ):
            assert f"../../{file}" in page.links
        assert case.sha256 in page.text and f"failuremap verify {case.id}" in page.text
        assert f"failuremap run {SLUG} --stage attempt -N {case.variant}" in page.text


def test_the_difference_between_the_stages_is_marked_as_deleted_and_inserted(page, text):
    (difference,) = re.findall(r'<pre class="diff">(.*?)</pre>', text, re.DOTALL)

    assert re.findall(r"<ins>\+ (.*?)</ins>", difference) == ["    return list(parts[0]) if parts else []"]
    assert len(re.findall(r"<del>- .*?</del>", difference)) == 1
    assert len(difference.strip().splitlines()) == 4


def test_a_failing_row_says_why(text):
    row = re.search(r"three partials<td>(.*)", text)[1]

    assert "1/3 of what is expected" in row and 'href="#clause-adds-up"' in row


def test_what_is_withheld_is_named_with_its_commitments(page, family):
    for case in family.cases:
        assert all(digest in page.text for digest in case.member_only.commitments.values())
    assert all(field in page.text for field in family.first.member_only.fields)
    assert f"../../{addresses.ABOUT}#members" in page.links
    assert f"failuremap score repair.py --case {SLUG}" in page.text


def test_what_an_audit_said_is_there_with_its_commands(made):
    page = Page(made[addresses.mechanism_page("replica-means-ignore-counts")])

    assert "wrong A token on rank 0 weighs 2.00 times a token on rank 1." in page.text
    assert "failuremap audit --nproc 2 -- replica_means_ignore_counts.py" in page.text
    assert len(page.all("svg")) == 1


def test_an_audit_that_names_nothing_says_why(made, content):
    blind = [family for family in content.families.values() if family.first.audit.blind]

    assert blind
    for family in blind:
        page = Page(made[addresses.mechanism_page(family.slug)])
        assert " ".join(family.first.audit.blind.split()) in page.text


def test_reports_and_related_mechanisms_are_linked(page, family, content):
    links = set(page.links)

    assert {reference.url for reference in family.first.references} <= links
    assert {f"../../{addresses.report_page(one.url)}" for one in family.first.references} <= links
    related = {slug for slug in family.first.related if slug in content.families}
    assert related and {f"../../{addresses.mechanism_page(slug)}" for slug in related} <= links


def test_a_digest_has_a_button_that_waits_for_a_script(page, family):
    buttons = [one for one in page.all("button") if "data-digest" in one]

    assert [one["data-digest"] for one in buttons] == [case.sha256 for case in family.cases]
    assert all("hidden" in one for one in buttons)


def test_the_json_of_a_mechanism_holds_what_its_cases_share(made, family):
    document = json.loads(made[f"mechanism/{SLUG}.json"])

    assert (document["number"], document["family"], document["title"]) == ("FM-002", SLUG, family.title)
    assert [one["sha256"] for one in document["cases"]] == [case.sha256 for case in family.cases]
    assert not {"implementations", "verification", "sha256"} & set(document)


def test_the_list_has_every_mechanism(made, content):
    page = Page(made[addresses.MECHANISMS])

    assert {f"../{addresses.mechanism_page(slug)}" for slug in content.families} <= set(page.links)
    assert [one["slug"] for one in json.loads(made["mechanism.json"])["mechanisms"]] == list(content.families)


def test_a_member_reads_the_repair_and_its_run():
    content = content_of(all_cases(), "member")
    made = dict(mechanism_pages.pages(Frame(content)))
    page = Page(made[addresses.mechanism_page("replica-means-ignore-counts")])
    case = content.cases[0]

    assert "3 / The repair" in page.text and "Member access" in page.text
    assert " ".join(case.repair.split()) in page.text and "Exit 0 All 7 checks pass." in page.text
    assert "Held in the member archive" not in page.text


def test_what_a_record_says_is_never_markup(content):
    case = content.families[SLUG].first
    planted = case.model_copy(update={"abstract": "<script>alert(1)</script>", "root_cause": "<b>&amp;</b>"})
    strange = Frame(type(content)("open", (planted,)))

    texts = [
        *dict(mechanism_pages.pages(strange)).values(),
        dict(case_pages.pages(strange))[addresses.case_page(case.id)],
    ]
    shown = [text for text in texts if text.startswith("<!doctype")]
    assert len(shown) == 3
    assert not any("<script>" in text or "<b>" in text for text in shown)
