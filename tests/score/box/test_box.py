"""A candidate in a box answers or is stopped, within its limits, and the box says which."""

from __future__ import annotations

import os
import signal
from fractions import Fraction

import pytest

from failuremap.score.box import Answer, Box, open_box
from failuremap.score.limits import MEBIBYTE, Limits
from failuremap.score.stopped import Stopped

ECHO = "def solve(rows): return rows"
SHORT = Limits(cpu_s=1)


@pytest.fixture
def boxed(sound):
    """A function that opens the best box with a candidate; all are closed in the end."""
    opened: list[Box] = []

    def open_one(source: str, limits: Limits = SHORT) -> Box:
        opened.append(open_box(source.encode(), limits, level=sound))
        return opened[-1]

    yield open_one
    for box in opened:
        box.close()


def stopped(box: Box, argument: object = None) -> tuple[str, str]:
    with pytest.raises(Stopped) as caught:
        box.call(argument)
    return caught.value.outcome, caught.value.reason


def test_an_answer_is_the_value_and_the_argument_afterwards(boxed):
    box = boxed("import fractions\ndef solve(rows):\n    rows.append(0)\n    return (sum(rows), rows[0])")

    assert box.call([1, Fraction(1, 3)]) == Answer((Fraction(4, 3), 1), [1, Fraction(1, 3), 0])


def test_the_second_call_gets_the_object_of_the_first(boxed):
    box = boxed("def solve(rows):\n    rows.append(0)\n    return len(rows)")

    assert box.call([1]) == Answer(2, [1, 0])
    assert box.call_again() == Answer(3, [1, 0, 0])
    assert box.call([1]) == Answer(2, [1, 0])


def test_both_calls_can_be_made_in_one_exchange(boxed):
    box = boxed("def solve(rows):\n    rows.append(0)\n    return len(rows)")

    assert box.call_twice([1]) == (Answer(2, [1, 0]), Answer(3, [1, 0, 0]))
    assert box.call([1]) == Answer(2, [1, 0])


def test_of_two_calls_in_one_exchange_either_may_fail_and_the_next_is_answered(boxed):
    box = boxed("count = 0\ndef solve(n):\n    global count\n    count += 1\n    return 1 / (count - n)")

    for failing in (1, 4):
        with pytest.raises(Stopped, match="the candidate raised ZeroDivisionError"):
            box.call_twice(failing)

    assert box.call(6).value == -1.0


def test_one_box_answers_many_times(boxed):
    box = boxed(ECHO)

    assert [box.call([n, [n / 8] * n]).value for n in range(50)] == [[n, [n / 8] * n] for n in range(50)]


def test_a_large_input_and_a_large_answer_cross_in_parts(boxed):
    rows = [0.1] * 20_000

    assert boxed(ECHO).call(rows) == Answer(rows, rows)


def test_after_an_exception_the_box_goes_on(boxed):
    box = boxed("def solve(n): return 1 / n")

    assert stopped(box, 0) == ("crashed", "the candidate raised ZeroDivisionError")
    assert box.call(2).value == 0.5


def test_what_offered_functions_import_when_they_are_called_is_there(boxed):
    source = """
import collections, datetime, enum, functools
Way = enum.Enum("Way", "SUM")
@functools.singledispatch
def added(given: object): pass
@added.register
def _(given: list): return sum(given)
def solve(given):
    datetime.datetime.strptime("2026", "%Y")
    try: 1 in Way
    except TypeError: pass
    assert collections.Counter("aab").most_common(1) == [("a", 2)]
    return added(given)
"""
    assert boxed(source).call([1, 2]).value == 3


def test_after_its_end_a_box_gives_the_same_reason(boxed):
    box = boxed("import os\ndef solve(n): os._exit(3)")

    assert stopped(box) == stopped(box) == ("crashed", "the candidate ended its own process")
    with pytest.raises(Stopped, match="ended its own process"):
        box.call_again()


def test_an_input_that_is_no_value_is_the_judges_fault(boxed):
    assert stopped(boxed(ECHO), {1})[0] == "judge-error"


TYPES = "int, float, Fraction, bool, str, None, list, tuple, dict"


@pytest.mark.parametrize(
    ("body", "outcome", "reason"),
    [
        ("return {1}", "malformed", f"the candidate's answer holds set; it may hold {TYPES}"),
        ("return type('x', (float,), {})()", "malformed", f"holds a type of its own; it may hold {TYPES}"),
        ("x = []; x.append(x); return x", "malformed", "the candidate's answer is nested too deeply, or holds itself"),
        ("return {1: 2}", "malformed", "the candidate's answer holds a dict with a key that is no str"),
        ("return [0] * 10**6", "output", "the candidate's answer holds too many values, or too large ones"),
        ("return ['x' * 10**5] * 20", "output", "the candidate's answer is longer than output_bytes=1048576"),
        ("return [0] * 10**9", "memory", "the candidate needed more than memory_bytes=268435456"),
        ("raise SystemExit", "crashed", "the candidate ended itself by SystemExit"),
        ("raise type('x', (Exception,), {})", "crashed", "the candidate raised a type of its own"),
        ("import _ctypes; _ctypes.call_function(8, ())", "crashed", "the candidate's process died of SIGSEGV"),
        ("open('/etc/passwd')", "crashed", "the candidate raised PermissionError"),
        (
            "import os; os.write(1, b'x\\n')",
            "malformed",
            "the candidate wrote to the judge itself, out of turn or in no",
        ),
    ],
)
def test_a_call_without_an_answer_is_stopped_with_a_sentence(boxed, body, outcome, reason):
    said = stopped(boxed(f"def solve(rows): {body}"))

    assert said[0] == outcome
    assert reason in said[1]


WHAT = "what is judged is solve(argument)"


@pytest.mark.parametrize(
    ("source", "outcome", "reason"),
    [
        (b"def solve(rows:", "malformed", "the candidate is no Python: a syntax error in line 1"),
        (b"", "malformed", f"the candidate defines no solve; {WHAT}"),
        (b"solve = 3", "malformed", f"the candidate's solve cannot be called; {WHAT}"),
        (b"def solve(a, b): pass", "malformed", f"the candidate's solve cannot be called with one argument; {WHAT}"),
        (b"import numpy", "crashed", "numpy, which is not in the box: standard library for computing only"),
        (b"__import__('num' + 'py')", "crashed", "the candidate imports a module, which is not in the box"),
        (b"1 / 0", "crashed", "the candidate raised ZeroDivisionError"),
        (b"raise SystemExit", "crashed", "the candidate ended itself by SystemExit"),
        (b"x = '\xff'", "malformed", "the candidate is not UTF-8: its byte 5 is none"),
        (b"#" * 65537, "malformed", "the candidate has 65537 bytes; at most source_bytes=65536 are judged"),
    ],
    ids=range(10),
)
def test_a_candidate_that_cannot_be_loaded_is_stopped_with_a_sentence(sound, source, outcome, reason):
    with pytest.raises(Stopped) as caught:
        open_box(source, SHORT, level=sound)

    assert caught.value.outcome == outcome
    assert reason in caught.value.reason


def test_a_box_that_is_killed_from_outside_is_the_judges_fault(boxed):
    box = boxed(ECHO)
    os.kill(box.pid, signal.SIGKILL)

    assert stopped(box) == (
        "judge-error",
        "something outside the box ended it; the candidate cannot have done so. Run it again",
    )


@pytest.mark.slow
def test_a_candidate_that_closes_its_pipe_and_goes_on_is_ended_and_has_itself_to_blame():
    source = b"import os\ndef solve(rows):\n    os.close(1)\n    while True: pass"
    with open_box(source, Limits(cpu_s=60), level="none") as box:
        assert stopped(box) == ("crashed", "the candidate ended its own process")


def test_a_kill_for_the_cgroups_memory_is_the_candidates(boxed):
    box = boxed("def solve(n): return len(bytearray(b'x') * n)")
    if box.level != "box-3":
        pytest.skip("this user may make no cgroup here that limits memory and processes")
    (limit,) = {path for folder in box._group.folders for path in folder.glob("memory.limit_in_bytes")} or {
        path for folder in box._group.folders for path in folder.glob("memory.max")
    }
    limit.write_text(str(32 * MEBIBYTE), encoding="utf-8")

    assert stopped(box, 100 * MEBIBYTE) == ("memory", "the candidate needed more than memory_bytes=268435456")


ENDLESS = "while True:\n    pass\n"


@pytest.mark.slow
def test_an_endless_candidate_ends_at_its_limit_of_processor_time(boxed):
    box = boxed("def solve(rows):\n    while True: pass")

    assert stopped(box) == ("timeout", "the candidate was still running after cpu_s=1")
    assert 0.5 < box.usage.cpu_s <= SHORT.cpu_s + 1


@pytest.mark.slow
def test_an_endless_import_is_ended(sound):
    with pytest.raises(Stopped, match="the candidate was still running after cpu_s=1"):
        open_box(ENDLESS.encode(), SHORT, level=sound)


@pytest.mark.slow
def test_a_candidate_that_waits_ends_at_its_limit_of_wall_time(boxed):
    box = boxed("import os\ndef solve(rows): return os.read(0, 1)")

    assert stopped(box) == ("timeout", "the candidate gave no answer within wall_s=3")
    assert box.usage.cpu_s < 1


def test_the_time_between_two_calls_is_the_judges(boxed):
    box = boxed(ECHO)
    box.call(0)

    assert (before := box.usage.wall_s) == box.usage.wall_s, before


def test_usage_is_what_the_candidate_used(boxed):
    box = boxed("def solve(n): return sum(len(bytearray(b'x') * n) for _ in range(20))")
    before = box.usage

    box.call(40 * MEBIBYTE)

    assert box.usage.cpu_s > before.cpu_s
    assert box.usage.memory_bytes > 40 * MEBIBYTE
    assert box.usage.wall_s > 0


def test_a_candidate_sees_no_environment_and_no_files_but_pythons(boxed):
    names = boxed("import os\nnames = sorted(os.environ)\ndef solve(rows): return names").call(None).value

    assert set(names) <= {"PYTHONHASHSEED", "LD_LIBRARY_PATH", "LC_CTYPE", "PWD"}


def test_what_the_standard_library_has_for_computing_can_be_used(boxed):
    source = """
import bisect, collections, copy, decimal, functools, heapq, itertools, json, math, operator, random, re, statistics
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

class Row(NamedTuple):
    n: int

class Kind(Enum):
    ONE = 1

@dataclass(frozen=True)
class Held:
    x: float = 0.5

@functools.lru_cache
def solve_one(n):
    return math.fsum([Held().x, Row(n).n, Kind.ONE.value, float(decimal.Decimal(1)), statistics.fmean([1, 3])])

def solve(n):
    random.seed(1)
    random.shuffle(list(range(n)))
    assert json.loads(json.dumps({"a": 1})) == copy.deepcopy({"a": 1})
    assert re.sub("a", "b", "a") == "b"
    return solve_one(n) + Fraction(next(itertools.count()))
"""
    assert boxed(source).call(3).value == 7.5


@pytest.mark.parametrize(
    "line",
    [
        "from collections.abc import Sequence",
        "from collections import abc",
        "import inspect, logging, pprint, traceback",
    ],
)
def test_what_a_repair_may_import_is_found_where_it_names_nothing_else(line, boxed):
    assert boxed(f"{line}\ndef solve(rows): return len(rows)").call([1]).value == 1
