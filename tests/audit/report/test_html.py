"""The HTML report stands alone, escapes everything, and says in words what its colours say."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser

import pytest

from audit.report.samples import (
    CANNOT_TELL,
    COUNTS_IGNORED,
    EIGHT_BY_EIGHT,
    HOSTILE_NAMES,
    ODD_NUMBERS,
    RIGHT,
    SAMPLES,
    SEVERAL_FINDINGS,
    TWO_CANDIDATES,
    grid,
)
from failuremap.audit.model import Candidate
from failuremap.audit.report.html import html, shade
from failuremap.audit.report.json_ import to_json

VOID = {"meta", "br", "img", "link", "input", "hr"}
LOADING = {"src", "href", "srcset", "data", "action", "poster", "background"}


class Page(HTMLParser):
    """Reads a page: its tags, attributes, the text of each tag; fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, *but: str) -> str:
        """Return the text outside some tags, white space as single spaces."""
        return " ".join(" ".join(text for tag, text in self.texts if tag not in ("style", *but)).split())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_is_well_formed_has_no_script_and_loads_nothing(name: str):
    page = Page(html(SAMPLES[name]))

    assert page.open == []
    assert "script" not in {tag for tag, _ in page.tags}
    assert [attributes for _, attributes in page.tags if LOADING & set(attributes)] == []
    assert not any("url(" in text or "@import" in text for tag, text in page.texts if tag == "style")


def test_the_page_forbids_every_request():
    policy = {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"}

    assert ("meta", policy) in Page(html(RIGHT)).tags


def test_no_hostile_name_becomes_a_tag_an_attribute_or_a_control_character():
    text = html(HOSTILE_NAMES)
    handlers = [name for _, attributes in Page(text).tags for name in attributes if name.startswith("on")]

    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert handlers == []
    assert [char for char in text if not char.isprintable() and char != "\n"] == []


@pytest.mark.parametrize("name", SAMPLES)
def test_the_outcome_the_sentence_and_each_reason_are_on_the_page(name: str):
    verdict = SAMPLES[name]
    text = Page(html(verdict)).text("pre", "title")

    assert verdict.outcome in text
    if name != "hostile_names":
        assert all(said in text for said in [verdict.sentence, *(" ".join(one.split()) for one in verdict.reasons)])


@pytest.mark.parametrize("name", SAMPLES)
def test_the_whole_json_is_on_the_page(name: str):
    shown = "".join(text for tag, text in Page(html(SAMPLES[name])).texts if tag == "pre")

    assert json.loads(shown) == json.loads(to_json(SAMPLES[name]))


def test_each_cell_says_its_share_its_word_and_its_count():
    text = Page(html(COUNTS_IGNORED)).text("pre")

    assert "rank 0 0.70 light 164 tokens" in text
    assert "rank 1 1.76 heavy 350 tokens" in text


def test_several_micro_batches_make_a_table_with_a_cell_for_each():
    page = Page(html(EIGHT_BY_EIGHT))

    assert len([1 for tag, attributes in page.tags if tag == "td" and "cell" in (attributes["class"] or "")]) == 64
    assert len([1 for tag, attributes in page.tags if attributes.get("scope") == "row"]) == 8


def test_a_micro_batch_that_a_rank_does_not_have_is_an_empty_cell():
    ragged = RIGHT.model_copy(update={"cells": RIGHT.cells[:-1]})

    assert html(ragged).count('class="cell none"') == 1
    assert html(RIGHT).count('class="cell none"') == 0


def test_the_caption_says_which_step_is_shown():
    text = Page(html(COUNTS_IGNORED)).text("pre")
    unmeasured = CANNOT_TELL.model_copy(update={"cells_step": 5})

    assert "What one token weighs in the update of step 3, as a multiple of its fair share." in text
    assert "Step 5." in Page(html(unmeasured)).text("pre")
    assert "Step " not in Page(html(CANNOT_TELL)).text("pre")


def test_who_points_at_a_cell_reads_its_share_in_words():
    titles = [attributes["title"] for _, attributes in Page(html(COUNTS_IGNORED)).tags if "title" in attributes]

    assert [str(title).split(",")[0] for title in titles] == ["0.70 of a fair share", "1.76 times a fair share"]


def test_a_table_scrolls_sideways_only():
    assert ".scroll { overflow-x: auto; overflow-y: hidden; }" in html(RIGHT)


def test_an_outcome_that_the_sentence_opens_with_is_not_said_twice():
    verdict = CANNOT_TELL.model_copy(update={"sentence": "Cannot tell whether they are added up right."})
    page = Page(html(verdict))

    assert "cannot tell" not in page.text("pre")
    assert ("title", verdict.sentence) in page.texts
    assert "cannot tell" in Page(html(CANNOT_TELL)).text("pre")


def test_each_repair_is_a_paragraph_of_its_own():
    first = TWO_CANDIDATES.findings[0]
    candidates = [Candidate(slug=slug, title=slug) for slug in ("window-sum-not-mean", "replicas-summed")]
    several = TWO_CANDIDATES.model_copy(update={"findings": [first.model_copy(update={"candidates": candidates})]})
    text = Page(html(several)).text("pre")

    assert "If it is window-sum-not-mean: Divide once." in text and "If it is replicas-summed: " in text


def test_thousands_of_cells_are_folded():
    many = EIGHT_BY_EIGHT.model_copy(update={"cells": grid(256, 17, lambda r, m: 1 + r / 256)})
    page = Page(html(many))

    assert len([1 for tag, attributes in page.tags if tag == "li" and "title" in attributes]) == 64
    assert "4,288 cells between, from" in page.text("pre")


def test_what_was_not_measured_says_so_and_needs_no_legend():
    assert "not measured" in Page(html(CANNOT_TELL)).text("pre")
    assert 'class="legend"' not in html(CANNOT_TELL)
    assert 'class="legend"' in html(RIGHT)


def test_what_is_no_number_is_said_in_words():
    text = Page(html(ODD_NUMBERS)).text("pre")

    assert all(word in text for word in ("not a number", "infinite", "not measured", "negative", "no weight"))


def test_all_findings_notes_and_candidates_are_on_the_page():
    text = Page(html(SEVERAL_FINDINGS)).text("pre")

    assert all(said in text for said in [*(one.sentence for one in SEVERAL_FINDINGS.findings), *SEVERAL_FINDINGS.notes])
    assert "separate a window of another length" in Page(html(TWO_CANDIDATES)).text("pre")


def test_light_and_dark_and_phones_are_served():
    assert "@media (prefers-color-scheme: dark)" in html(RIGHT)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html(RIGHT)


@pytest.mark.parametrize(
    ("share", "named", "expected"),
    [
        (1.0, "fair", ("fair", 0)),
        (2.0, "heavy", ("heavy", 50)),
        (0.5, "light", ("light", 50)),
        (1.01, "heavy", ("heavy", 8)),
        (0.35, "light", ("light mid", 76)),
        (4.0, "heavy", ("heavy deep", 100)),
        (1e9, "heavy", ("heavy deep", 100)),
        (0.0, "no weight", ("light deep", 100)),
        (math.inf, "heavy", ("heavy deep", 100)),
        (math.nan, "not a number", ("odd", 0)),
        (-1.0, "negative", ("odd", 0)),
        (None, "not measured", ("unknown", 0)),
    ],
)
def test_the_colour_is_on_a_log_scale(share: float | None, named: str, expected: tuple[str, int]):
    assert shade(share, named) == expected
