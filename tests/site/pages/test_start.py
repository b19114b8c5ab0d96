"""The start page: what this is, in two commands and a picture that an audit of today gives just so."""

from __future__ import annotations

import pytest

from failuremap.site import addresses
from failuremap.site.build import site_files
from failuremap.site.content import Content
from failuremap.site.frame import Frame
from failuremap.site.pages import start
from site_pages import Page

ROOT = start.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def page(content) -> Page:
    return Page(dict(start.pages(Frame(content)))[addresses.START])


@pytest.mark.slow
@pytest.mark.torch
def test_the_verdict_is_what_an_audit_says_of_the_script(job_server, tmp_path):
    from failuremap.audit import diagnose

    ran = job_server.run_job(str(ROOT / start.SCRIPT), (), start.RANK_COUNT, tmp_path)
    assert ran.ok, ran.output
    seen, recorded = diagnose(tmp_path), start.recorded_verdict()

    assert (seen.outcome, seen.sentence) == (recorded.outcome, recorded.sentence)
    assert [one.candidates for one in seen.findings] == [one.candidates for one in recorded.findings]
    for one, other in zip(seen.findings[0].cells, recorded.findings[0].cells, strict=True):
        assert (one.rank, one.micro_batch, one.count) == (other.rank, other.micro_batch, other.count)
        assert one.share == pytest.approx(other.share, rel=1e-4)


def test_the_first_screen_says_what_it_is(page):
    first = page.text.index("By symptom")

    assert page.text.index("What does your training job really do with its gradients?") < first
    assert page.text.index(start.recorded_verdict().sentence) < first
    assert page.text.index("failuremap audit --nproc 4 -- train.py") < first


def test_each_cell_of_the_audit_is_in_the_picture(page):
    (drawing,) = page.all("svg")

    assert drawing["role"] == "img"
    for cell in start.recorded_verdict().findings[0].cells:
        assert f"rank {cell.rank}" in page.text and f"{cell.count:.0f} tokens" in page.text
        assert f"{cell.share:.2f}" in page.text


def test_the_ways_in_are_by_symptom_category_and_group(page, content):
    wanted = {addresses.SYMPTOMS, *map(addresses.group_page, content.groups)}

    assert wanted | set(map(addresses.category_page, content.categories)) <= set(page.links)


def test_an_empty_catalogue_has_a_start_page():
    assert addresses.START in site_files(Content("open", ()))
