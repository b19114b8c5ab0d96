"""The calls that the pages show do what the contracts promise."""

from __future__ import annotations

import pytest

import failuremap
from failuremap.catalogue.records.parts import RuleUse
from failuremap.rules import known_rule
from failuremap.site.remedies import remedy_for

GRADIENTS, COUNTS = [[1.0, 2.0], [3.0, 4.0]], [1, 3]


def promised(name: str) -> RuleUse:
    """Return a rule as a record has it."""
    rule = known_rule(name)
    return RuleUse(name=rule.name, title=rule.words(), formula=rule.formula)


@pytest.mark.parametrize(("rule", "result"), [("weighted_mean", [2.5, 3.5]), ("mean", [2.0, 3.0]), ("sum", [4.0, 6.0])])
def test_the_call_applies_the_rule(rule, result):
    remedy = remedy_for(promised(rule))

    names = {"failuremap": failuremap, "gradients": GRADIENTS, "parts": GRADIENTS, "counts": COUNTS}
    assert eval(remedy.in_memory, names) == result


def test_the_lines_of_a_loop_are_those_of_the_documents():
    lines = [line for line in remedy_for(promised("weighted_mean")).on_ranks.splitlines() if line != "..."]

    code = [line.partition("#")[0].strip() for line in lines]
    assert code == [
        'handle = failuremap.attach(model, loss="mean")',
        "handle.backward(loss, count=count)",
        "handle.step()",
    ]


def test_no_call_is_shown_for_a_rule_that_no_aggregator_has(content):
    without = [
        one.first.rules.promised for one in content.families.values() if not remedy_for(one.first.rules.promised)
    ]

    assert {rule.name for rule in without if rule} <= {"mean_over_ranks_sum_over_window"}
