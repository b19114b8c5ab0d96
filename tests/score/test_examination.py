"""What an examination concludes from the answers: clause by clause, and how exact they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from failuremap.catalogue import mechanism
from failuremap.score.examination import Examination, numerics
from failuremap.score.fixtures import Fixture
from failuremap.score.stopped import Stopped

SUM = mechanism("partials-averaged")
FIXTURES = [Fixture(("adds-up",), [[1], [2]], "one"), Fixture(("signs", "single"), [[3]], "two")]
DECIMALS = [[0.1], [0.2], [0.3]]
TWINS = [Fixture(("any-input",), DECIMALS, "as drawn"), Fixture(("any-input",), DECIMALS[::-1], "reordered", 0)]


class Reply(NamedTuple):
    value: Any
    argument_after: Any
    earlier_kept: bool = True


class Scripted:
    """A candidate whose answers are written down: first, second, first, second."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)

    def call(self, argument: object) -> Reply:
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Reply) else Reply(reply, argument)

    def call_twice(self, argument: object) -> tuple[Reply, Reply]:
        return self.call(argument), self.call(argument)


def examined(*replies: Any) -> Examination:
    examination = Examination(SUM, Scripted(*replies))
    examination.put(FIXTURES)
    return examination


def test_a_clause_holds_where_all_its_fixtures_do():
    assert examined([3], [3], [3], [3]).clauses([]) == dict.fromkeys(
        ["adds-up", "signs", "single", "empty", "any-input", "purity"], True
    )


def test_a_wrong_answer_breaks_the_clauses_of_its_fixture_alone():
    clauses = examined([3], [3], [4], [4]).clauses([])

    assert [name for name, held in clauses.items() if not held] == ["signs", "single"]


@pytest.mark.parametrize("replies", [([3], [5]), ([3], [3.0]), (Reply([3], [[1]]), [3]), ([3], Reply([3], [[2], [1]]))])
def test_another_second_answer_or_a_changed_input_breaks_purity(replies: tuple[Any, Any]):
    clauses = examined(*replies, [3], [3]).clauses([])

    assert [name for name, held in clauses.items() if not held] == ["purity"]


def test_where_answers_end_the_rest_is_open():
    examination = Examination(SUM, Scripted([3], [3], Stopped("crashed", "it raised")))

    with pytest.raises(Stopped):
        examination.put(FIXTURES)

    assert examination.clauses(FIXTURES[1:]) == {
        "adds-up": True,
        "signs": False,
        "single": False,
        "empty": True,
        "any-input": True,
        "purity": None,
    }


def test_what_the_judge_could_not_see_is_nobodys_fault():
    examination = Examination(SUM, Scripted([3], [3], Stopped("judge-error", "the box was ended")))

    with pytest.raises(Stopped):
        examination.put(FIXTURES)

    assert False not in examination.clauses(FIXTURES[1:]).values()


def test_a_sum_that_rounds_otherwise_in_another_order_depends_on_it():
    plain, other = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    rounded = Examination(SUM, Scripted([plain], [plain], [other], [other])).put(TWINS)
    exact = Examination(SUM, Scripted([other], [other], [other], [other])).put(TWINS)

    assert numerics(rounded).order_independent is False
    assert numerics(rounded).worst_ulps == 1
    assert numerics(exact).order_independent is True
    assert numerics(exact[:1]).order_independent is None
