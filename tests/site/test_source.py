"""Scripts as HTML: nothing is lost, nothing of a stranger's is markup, and a difference is readable."""

from __future__ import annotations

import html
import re

import pytest

from failuremap.catalogue import mechanism, render
from failuremap.site.source import difference, highlighted, of_all_variants, of_variant

SLUGS = ("replica-means-ignore-counts", "partials-averaged", "misaligned-shards")


def shown(markup: str) -> str:
    """Return what a reader sees of markup."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@pytest.mark.parametrize("slug", SLUGS)
def test_a_reader_sees_the_script_to_the_letter(slug):
    source = render(mechanism(slug), "broken", 1)

    assert shown(highlighted(source)) == source


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("variant", [2, 5])
def test_another_variant_is_the_same_but_for_its_n(slug, variant):
    first, other = (highlighted(render(mechanism(slug), "attempt", n)) for n in (1, variant))

    assert of_variant(first, variant) == other


def test_the_script_of_all_variants_has_each_n_once():
    source = of_all_variants(highlighted(render(mechanism("partials-averaged"), "broken", 1)))

    assert re.findall(r'class="m of of-(\d)">(\d)<', source) == [(n, n) for n in "12345"]


def test_what_looks_like_markup_is_text():
    source = "x = '</code><script>alert(1)</script>' # &amp;\n"

    assert "<script" not in highlighted(source)
    assert shown(highlighted(source)) == source


def test_keywords_texts_numbers_comments_and_names_are_marked():
    marked = highlighted('def f(x):  # why\n    return len("a") + 1\n')

    for piece in (
        '<i class="k">def</i>',
        '<i class="f">f</i>',
        '<i class="c"># why</i>',
        '<i class="b">len</i>',
        '<i class="s">"a"</i>',
        '<i class="m">1</i>',
    ):
        assert piece in marked


def test_a_difference_leads_from_the_one_text_to_the_other():
    before, after = (render(mechanism("replica-means-ignore-counts"), stage, 1) for stage in ("broken", "attempt"))
    lines = list(difference(before, after))

    removed = [line for kind, line in lines if kind == "del"]
    added = [line for kind, line in lines if kind == "ins"]
    assert [line for line in before.splitlines() if line not in removed] == [
        line for line in after.splitlines() if line not in added
    ]
    assert removed and added


def test_places_far_apart_have_a_gap_between_them():
    before = "\n".join("abcdefghij")

    assert [kind for kind, _ in difference(before, before.replace("a", "A").replace("j", "J"))] == [
        "del", "ins", "same", "gap", "same", "del", "ins",
    ]  # fmt: skip


def test_equal_texts_do_not_differ():
    assert list(difference("a\nb", "a\nb")) == []


@pytest.mark.parametrize("source", ["x = f'a{b!r:>{width}}c' + y\n", 'x = rf"""a\n{f"{b}"}"""\n', "f'{{}}'\n"])
def test_an_f_string_is_one_text_on_every_version_of_python(source):
    marked = highlighted(source)

    assert shown(marked) == source
    assert marked.count("<i") == marked.count('class="s"') == 1
