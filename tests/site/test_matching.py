"""What was seen leads to the mechanism: the page's script and the catalogue agree, on every rule and all evidence."""

from __future__ import annotations

import random
from typing import Any

import pytest

from failuremap.catalogue import Sign, mechanisms, recognise
from failuremap.catalogue.mechanism import Mechanism
from failuremap.rules import KNOWN, Contribution, Layout, Rule, match
from failuremap.site import matching
from failuremap.site.forms import form_of

SIZES = [(2, 1, 0), (1, 3, 0), (2, 3, 4), (3, 2, 0), (2, 2, 0), (4, 1, 0), (2, 3, 2)]


def a_layout(source: random.Random, size: tuple[int, int, int]) -> dict[str, Any]:
    ranks, window, full = size
    counts = [[source.choice([0, 1, 2, 3, 5, 8, 13]) for _ in range(window)] for _ in range(ranks)]
    counts[0][0] = counts[0][0] or 4
    return {"counts": counts, "observer": source.randrange(ranks), "fullWindow": full}


def as_layout(given: dict[str, Any]) -> Layout:
    counts = {(rank, batch): count for rank, row in enumerate(given["counts"]) for batch, count in enumerate(row)}
    return Layout.grid(counts, observer=given["observer"], full_window=given["fullWindow"] or None)


LAYOUTS = [a_layout(random.Random(seed), SIZES[seed % len(SIZES)]) for seed in range(21)]


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return matching.table(mechanisms())


def test_the_page_weighs_by_every_known_rule_as_the_rule_does(node, table):
    body = "return given[1].map((one) => given[0].rules.map((rule) => page.weights(rule, page.contributions(one))))"
    seen = node("match.js", body, [table, LAYOUTS])

    for given, by_rule in zip(LAYOUTS, seen, strict=True):
        for rule, weights in zip(KNOWN.values(), by_rule, strict=True):
            assert weights == pytest.approx([float(c) for c in rule.coefficients(as_layout(given))]), rule.name


def test_the_page_finds_the_rules_that_measured_weights_equal(node, table):
    measured = [[float(c) for c in rule.coefficients(as_layout(one))] for one in LAYOUTS[:6] for rule in KNOWN.values()]
    body = (
        "return given[1].flatMap((one, at) => given[0].rules.map((_, rule) => "
        "page.rulesOf(given[0], page.contributions(one), given[2][at * given[0].rules.length + rule])))"
    )
    seen = node("match.js", body, [table, LAYOUTS[:6], measured])

    layouts = [as_layout(one) for one in LAYOUTS[:6] for _ in KNOWN]
    for weights, layout, rules in zip(measured, layouts, seen, strict=True):
        assert rules == [found.rule.name for found in match(weights, [0] * len(weights), layout)]


def test_ratios_alone_give_the_rules_of_each_total_weight(node, table):
    body = (
        "return page.rulesByTotal(given, page.contributions({counts: [[3], [5]]}), [1, 1]).map(([total]) => "
        "Number(total.toFixed(6)))"
    )
    totals = node("match.js", body, table)

    assert {1.0, 2.0, 0.5} <= set(totals)
    assert len(totals) == len(set(totals))


def evidence(count: int) -> list[tuple[list[str], list[str], str]]:
    """Rules, signs and promise at random, half of them around the evidence of a mechanism."""
    source = random.Random(7)
    found = []
    for entry in source.choices(list(mechanisms().values()), k=count):
        near = source.random() < 0.5
        rules = {*(entry.followed if near else ()), *source.sample(list(KNOWN), source.choice([0, 1, 3]))}
        signs = {*(source.choice(entry.signs) if near else ()), *source.sample(list(Sign), source.choice([0, 1, 4]))}
        found.append((sorted(rules), sorted(map(str, signs)), source.choice(["mean", "mean", "sum"])))
    return found


def test_the_page_recognises_what_the_catalogue_recognises(node, table):
    cases = evidence(1000)
    body = "return given[1].map((one) => page.recognise(given[0], ...one).map((found) => found.entry.slug))"
    seen = node("match.js", body, [table, cases])

    expected = [[one.slug for one in recognise(r, map(Sign, s), promise=p)] for r, s, p in cases]  # type: ignore[arg-type]
    assert seen == expected
    assert sum(map(bool, expected)) > 250


def own_evidence(entry: Mechanism) -> dict[str, Any]:
    """What a job that has a mechanism shows: its signs, and where it follows a rule, the numbers that this gives."""
    signs = sorted(entry.signs[0])
    if not entry.followed or entry.by_signs_alone:
        return {"signs": signs, "promise": "mean"}
    short, lasting = Sign.SHORT_WINDOW in signs, Sign.LONG_WINDOW in signs
    over_ranks = Sign.SINGLE_RANK in entry.never and Sign.SINGLE_MICRO_BATCH not in entry.never
    counts = [[3], [5]] if over_ranks and not (short or lasting) else [[1, 2, 3], [5, 6, 7]]
    layout = {"counts": counts, "observer": 0, "fullWindow": 4 if short else 2 if lasting else 0}
    weights = [float(c) for c in KNOWN[entry.followed[0]].coefficients(as_layout(layout))]
    return {
        "layout": layout,
        "weights": weights,
        "signs": signs,
        "promise": "sum" if entry.promised == "sum" else "mean",
    }


NAMEABLE = {slug: entry for slug, entry in mechanisms().items() if entry.followed or entry.by_signs_alone}
ANSWERED = """
const answered = ({ layout, weights, signs, promise }) => {
  const parts = layout ? page.contributions(layout) : [];
  const rules = layout ? page.rulesOf(given[0], parts, weights) : [];
  const shape = layout ? page.shapeSigns(layout, weights) : [];
  return [rules, page.recognise(given[0], rules, [...signs, ...shape], promise).map((found) => found.entry.slug)];
};
"""


def test_answers_as_its_evidence_gives_them_lead_to_every_mechanism(node, table):
    given = [own_evidence(entry) for entry in NAMEABLE.values()]
    seen = node("match.js", f"{ANSWERED} return given[1].map(answered)", [table, given])

    missed = {slug: found for slug, (_, found) in zip(NAMEABLE, seen, strict=True) if slug not in found}
    assert missed == {}


def test_the_answers_of_a_right_job_lead_to_no_mechanism(node, table):
    given = [
        {"layout": one, "weights": [float(c) for c in KNOWN[rule].coefficients(as_layout(one))], "signs": signs,
         "promise": promise}
        for one in LAYOUTS
        for promise, rule in (("mean", "weighted_mean"), ("sum", "unit_sum"))
        for signs in ([], ["ddp-present", "coefficients-mean"], ["no-ddp", "coefficients-sum"])
        if not any(0 in row for row in one["counts"]) and not one["fullWindow"]
    ]  # fmt: skip
    seen = node("match.js", f"{ANSWERED} return given[1].map(answered)", [table, given])

    assert [found for _, found in seen] == [[]] * len(given)
    assert all({"weighted_mean", "unit_sum"} & set(rules) for rules, _ in seen)


def test_each_sign_is_asked_for_once_under_its_topic():
    asked = [(topic, question.name) for topic, found in matching.topics(mechanisms()).items() for question in found]

    assert sorted(asked) == sorted((sign.topic, str(sign)) for sign in Sign)
    assert len(matching.topics(mechanisms())) == len({sign.topic for sign in Sign})


def test_each_mechanism_is_reached_by_a_sign_or_a_rule_or_is_listed_as_one_that_leaves_none():
    questions = [*(q for found in matching.topics(mechanisms()).values() for q in found)]
    questions += matching.rule_questions(mechanisms())
    reached = {way.slug for question in questions for way in question.ways}

    assert reached | set(matching.unseen(mechanisms())) == set(mechanisms())
    assert not reached & set(matching.unseen(mechanisms()))


def test_a_rule_that_is_no_product_of_powers_is_refused():
    odd = Rule("odd", "n + 1", "n + 1", lambda layout: tuple(n + 1 for n in layout.counts))

    with pytest.raises(AssertionError, match="rule='odd' is no product of powers"):
        form_of(odd)


def test_a_form_gives_the_weights_of_its_rule():
    layout = Layout((Contribution(0, 0, 3), Contribution(1, 0, 5)))

    assert [form_of(KNOWN["weighted_mean"]).weight(layout, part) for part in layout.contributions] == list(
        KNOWN["weighted_mean"].coefficients(layout)
    )
