"""The search: ids, words, symptoms and lines of an audit's output, each with the right record first."""

from __future__ import annotations

import re
from typing import Any

import pytest

from failuremap.audit.report.outline import about
from failuremap.catalogue import mechanisms
from failuremap.site import addresses, search
from failuremap.site.audits import recorded_audit
from site_queries import NONSENSE, QUERIES

FIND = "return given[1].map((query) => page.find(given[0], query))"


@pytest.fixture(scope="module")
def index(content) -> dict[str, Any]:
    return search.index(content.families)


@pytest.fixture(scope="module")
def found(node, index):
    """The slugs that queries find, the best first, all asked at once."""

    def ask(queries: list[str]) -> dict[str, list[str]]:
        answers = node("search.js", FIND, [index, queries])
        slugs = [[result["page"][1].split("/")[1] for result in one["results"]] for one in answers]
        return dict(zip(queries, slugs, strict=True))

    return ask


def test_a_symptom_in_peoples_words_has_its_record_first(found):
    seen = found(list(QUERIES))

    missed = {query: seen[query][:3] for query, slug in QUERIES.items() if seen[query][:1] != [slug]}
    assert missed == {}
    assert len(QUERIES) >= 40


def test_every_mechanism_on_the_pages_is_asked_for(content):
    assert set(content.families) <= set(QUERIES.values())


def test_nonsense_finds_nothing(found):
    assert found(NONSENSE) == {query: [] for query in NONSENSE}


def test_an_id_or_an_alias_leads_to_its_page(node, index, content):
    ids = {case.id: addresses.case_page(case.id) for case in content.cases}
    ids |= {alias: addresses.case_page(case.id) for case in content.cases for alias in case.aliases}
    ids |= {family.number: addresses.mechanism_page(slug) for slug, family in content.families.items()}
    ids |= {slug: addresses.mechanism_page(slug) for slug in content.families}
    typed = [*ids, "fm-001-3", " FM 001 3 ", "fa-99241"]
    answers = node("search.js", FIND, [index, typed])

    assert [answer["jump"] for answer in answers[: len(ids)]] == list(ids.values())
    assert {answer["jump"] for answer in answers[-3:-1]} == {addresses.case_page("FM-001-3")}
    assert answers[-1]["jump"] == addresses.case_page("FM-001-1")


def test_an_id_that_names_no_case_leads_nowhere(node, index):
    assert [answer["jump"] for answer in node("search.js", FIND, [index, ["FM-999-1", "constructor", ""]])] == [
        None
    ] * 3


def other_numbers(line: str) -> str:
    """The same line as another job has it."""
    return re.sub(r"\d+(\.\d+)?", lambda number: "7" if number[1] is None else "3.25", line)


def sentences(content) -> dict[str, str]:
    """The first sentence of the audit of each mechanism that is named."""
    verdicts = {slug: recorded_audit(slug) for slug in content.families}
    return {slug: seen.sentence for slug, seen in verdicts.items() if seen is not None and seen.outcome == "wrong"}


def test_the_sentence_of_an_audit_leads_to_the_records_whose_jobs_give_it(found, index, content):
    told = sentences(content)
    lines = {slug: f"✗ wrong  {other_numbers(sentence)}" for slug, sentence in told.items()}
    seen = found(list(lines.values()))

    for slug, sentence in told.items():
        slugs = seen[lines[slug]]
        giving = {index["pages"][page][1].split("/")[1] for page in index["lines"][search.normal(sentence)]}
        assert slugs[0] in giving, sentence
        assert slug in slugs, sentence
    assert len(told) > 25


def test_a_sentence_that_one_mechanism_alone_gives_has_it_first(found, index, content):
    alone = {s: slug for slug, s in sentences(content).items() if len(index["lines"][search.normal(s)]) == 1}
    seen = found(list(alone))

    assert {sentence: slugs[0] for sentence, slugs in seen.items()} == alone


def test_the_commonest_sentence_has_the_commonest_record_first(found):
    line = "A token on rank 3 weighs 1.75 times a token on rank 0."

    assert found([line])[line][0] == "replica-means-ignore-counts"


def test_the_other_lines_of_an_audit_have_the_mechanism_that_they_name_first(found, content):
    lines = {}
    for slug in content.families:
        verdict = recorded_audit(slug)
        named = [text for one in verdict.findings[:1] for label, text in about(one, verdict)] if verdict else []
        lines |= {f"  mechanism  {text}": slug for text in named if f"show {slug})" in text and " or " not in text}
    seen = found(list(lines))

    assert {line: slugs[0] for line, slugs in seen.items()} == lines
    assert len(lines) > 20


def test_the_page_cuts_words_and_lines_as_the_index_does(node, content):
    texts = [text for family in content.families.values() for text in search.texts(family).values()]
    words = sorted({word for text in texts for word in re.findall(r"[a-z]{2,}", text.lower())})
    stems, lines = node("search.js", "return [given[0].map(page.stem), given[1].map(page.normal)]", [words, texts])

    assert stems == [search.stem(word) for word in words]
    assert lines == [search.normal(text) for text in texts]
    assert len(words) > 1000


def test_the_index_tells_nothing_of_what_is_held_back(index, content):
    text = str(index)

    assert [slug for slug in mechanisms() if slug not in content.families and slug in text] == []


def test_every_alias_stands_for_a_word_of_the_index(index):
    assert [word for word in search.alike().values() if word not in index["words"]] == []


def test_a_factor_that_is_the_size_of_the_job_is_understood(node):
    queries = ["grad norm 8x at 8 GPUs", "4 times too small with world_size=4", "update 1/8 on 8 ranks", "8x at 4 GPUs"]

    assert node("search.js", "return given.map(page.totals)", queries) == [["xrank"], ["overrank"], ["overrank"], []]


def test_a_search_reads_no_more_than_the_postings_of_its_words(node, index):
    """2,000 cases are 400 mechanisms: what a query touches are the postings of its words, each page once for each."""
    pages = 400 // len(index["pages"]) + 1
    size = len(index["pages"])
    words = {
        word: [x for copy in range(pages) for x in _moved(found, copy * size)] for word, found in index["words"].items()
    }
    large = {**index, "pages": index["pages"] * pages, "words": words}
    body = """
    let read = 0;
    const reading = (all, word) => { read += (all[word] ?? []).length; return all[word]; };
    const words = new Proxy(given[0].words, { get: reading });
    return given[1].map((query) => { read = 0; page.find({ ...given[0], words }, query); return read; });
    """
    touched = node("search.js", body, [large, list(QUERIES)])

    assert max(touched) < 40_000


def _moved(postings: list[int], by: int) -> list[int]:
    return [number + by if place % 2 == 0 else number for place, number in enumerate(postings)]
