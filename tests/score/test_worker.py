"""The worker, spoken to line by line as the judge does, in a process without a box."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from failuremap.score.box import program
from failuremap.score.limits import Limits
from failuremap.score.wire import decode, encode


class Worker:
    """A worker's process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            program.python_command(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._process.stdin.write(program.first_line())

    def ask(self, *tree: object) -> list[object]:
        self._process.stdin.write(json.dumps(tree).encode() + b"\n")
        self._process.stdin.flush()
        return self.next()

    def next(self) -> list[object]:
        return json.loads(self._process.stdout.readline())

    def load(self, source: str) -> list[object]:
        assert self.ask("n0", *program.setup(source, Limits(), None)) == ["n0", "ready"]
        return self.ask("n1", source)

    def close(self) -> int:
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def test_an_answer_has_the_number_of_its_line(worker):
    assert worker.load("def solve(rows): return sum(rows)") == ["n1", "loaded"]

    assert worker.ask("n2", "call", encode([1, 2])) == ["n2", "value", 3, None, True]
    assert worker.ask("n3", "call", encode([0.5])) == ["n3", "value", encode(0.5), None, True]


def test_an_answer_that_a_later_call_changes_is_told(worker):
    worker.load("kept = []\ndef solve(rows):\n    kept.append(len(kept))\n    return kept")

    assert worker.ask("n2", "call", encode([1]))[-1] is True
    assert worker.ask("n3", "again")[-1] is False


@pytest.mark.parametrize(
    "source",
    [
        "ring = [[], [], []]\ndef solve(x):\n    ring.append(ring.pop(0))\n    ring[2][:] = x[0]\n    return ring[2]",
        "held = []\ndef solve(row):\n    held.append(row[0])\n    held[-5:-4] and held[-5].clear()\n    return 1",
    ],
    ids=["a ring of answers", "an input emptied later"],
)
def test_a_change_to_what_came_long_before_is_told(worker, source):
    worker.load(source)

    asked = [(worker.ask("n", "twice", encode(([place],)), "m"), worker.next()) for place in range(24)]

    assert [reply[-1] for reply in asked[0]] == [True] * 2
    assert False in [reply[-1] for replies in asked for reply in replies]


def test_an_answer_that_is_the_input_itself_or_long_is_no_change_when_the_next_one_is_put_in_its_place(worker):
    worker.load("def solve(rows): return [rows] if rows else [0.5] * 5000")

    asked = [worker.ask("n", "call", encode([1] * (place % 3))) for place in range(24)]

    assert [answer[-1] for answer in asked] == [True] * 24


def test_every_second_input_is_in_the_object_of_the_one_before(worker):
    worker.load("held = []\ndef solve(rows):\n    held.append(rows)\n    return [len(set(map(id, held))), *rows]")

    asked = [worker.ask("n", "call", encode([place])) for place in range(4)]

    assert [decode(answer[2]) for answer in asked] == [[1, 0], [1, 1], [2, 2], [2, 3]]
    assert [answer[-1] for answer in asked] == [True] * 4


def test_again_calls_with_the_same_object_as_it_was_left(worker):
    worker.load("held = []\ndef solve(rows):\n    held.append(id(rows))\n    rows.append(7)\n    return len(set(held))")

    assert worker.ask("n2", "call", encode([1])) == ["n2", "value", 1, ["l", 1, 7], True]
    assert worker.ask("n3", "again") == ["n3", "value", 1, ["l", 1, 7, 7], True]


def test_an_input_that_was_changed_before_and_not_since_is_told_once(worker):
    worker.load("def solve(rows):\n    rows[:] = [0]\n    return 1")

    assert worker.ask("n2", "call", encode([1])) == ["n2", "value", 1, ["l", 0], True]
    assert worker.ask("n3", "again") == ["n3", "value", 1, None, True]


@pytest.mark.parametrize(("before", "after"), [(1, True), (0, False), (1, 1.0), (0.0, -0.0), ([1], (1,))])
def test_a_change_to_what_python_calls_equal_is_told(worker, before, after):
    worker.load(f"def solve(rows):\n    rows[0] = {after!r}\n    return 1")

    assert worker.ask("n2", "call", encode([before])) == ["n2", "value", 1, encode([after]), True]


def test_what_a_candidate_prints_is_no_answer(worker):
    worker.load("import sys\ndef solve(rows):\n    print('[1]'); sys.stderr.write('x')\n    return 1")

    assert worker.ask("n2", "call", None) == ["n2", "value", 1, None, True]


def test_a_candidate_reads_nothing_of_what_the_judge_writes(worker):
    worker.load("import sys\ndef solve(rows): return sys.stdin.read()")

    assert worker.ask("n2", "call", None) == ["n2", "value", "", None, True]


def test_a_worker_ends_when_nobody_asks_any_more(worker):
    worker.load("def solve(rows): return 1")

    assert worker.close() == 0


def test_after_an_exception_the_next_line_is_answered(worker):
    worker.load("def solve(rows): return 1 / rows")

    assert worker.ask("n2", "call", 0) == ["n2", "stop", "raised", "ZeroDivisionError"]
    assert worker.ask("n3", "call", 1) == ["n3", "value", encode(1.0), None, True]


@pytest.mark.parametrize(
    ("source", "code", "detail"),
    [
        ("def solve(rows:", "syntax", 1),
        ("x = 1\ny = = 2", "syntax", 2),
        ("x\0", "syntax", 0),
        ("(" * 500 + ")" * 500, "syntax", 1),
        ("", "no-solve", ""),
        ("solve = 3", "not-callable", ""),
        ("def solve(): pass", "arity", 0),
        ("def solve(a, b): pass", "arity", 2),
        ("def solve(a, *, b): pass", "arity", 1),
        ("import numpy", "import", "numpy"),
        ("1 / 0", "raised", "ZeroDivisionError"),
        ("raise SystemExit(0)", "exit", ""),
        ("raise KeyboardInterrupt", "raised", "KeyboardInterrupt"),
        ("raise type('seen', (BaseException,), {})", "raised", ""),
        ("x = bytearray(10**12)", "memory", ""),
    ],
)
def test_a_candidate_that_cannot_be_loaded_is_told_by_a_code(worker, source, code, detail):
    assert worker.load(source) == ["n1", "stop", code, detail]


@pytest.mark.parametrize(
    "source",
    [
        "def solve(a, b=1, *rest, c=2, **named): return 1",
        "def solve(*rows): return 1",
        "solve = lambda rows: 1",
        "import functools\nsolve = functools.partial(lambda a, b: 1, 2)",
        "class solve:\n    def __new__(cls, rows): return 1",
        "from dataclasses import dataclass\n@dataclass\nclass Row:\n    n: 'int'\ndef solve(rows): return Row(1).n",
        "from __future__ import annotations\ndef solve(rows: X) -> Y: return 1",
    ],
)
def test_whatever_can_be_called_with_one_argument_is_a_solve(worker, source):
    assert worker.load(source) == ["n1", "loaded"]
    assert worker.ask("n2", "call", None) == ["n2", "value", 1, None, True]


def test_every_offered_module_is_in_the_standard_library():
    assert sorted(program.OFFERED_MODULES - sys.stdlib_module_names) == []


@pytest.mark.parametrize(
    ("body", "code", "detail"),
    [
        ("return {1}", "type", "set"),
        ("return type('seen', (list,), {})()", "type", "seen"),
        ("x = []; x.append(x); return x", "depth", ""),
        ("return [0] * 10**6", "size", ""),
        ("rows.append({1}); return 1", "type", "set"),
        ("raise SystemExit", "exit", ""),
        ("return bytearray(10**12)", "memory", ""),
        ("return rows.none", "raised", "AttributeError"),
    ],
)
def test_a_call_without_an_answer_is_told_by_a_code(worker, body, code, detail):
    worker.load(f"def solve(rows): {body}")

    assert worker.ask("n2", "call", ["l"]) == ["n2", "stop", code, detail]


def test_decoding_gives_the_candidate_plain_values(worker):
    worker.load("def solve(rows): return [type(row).__name__ for row in rows]")
    given = [1, 0.5, True, None, "x", (1,), [1], {"1": 2}]

    _, _, value, *_ = worker.ask("n2", "call", encode(given))

    assert decode(value) == [type(part).__name__ for part in given]


def test_two_calls_in_one_are_answered_by_two_lines_each_with_its_own_number(worker):
    worker.load("def solve(rows):\n    rows.append(7)\n    return len(rows)")

    assert worker.ask("n2", "twice", encode([1]), "n3") == ["n2", "value", 2, ["l", 1, 7], True]
    assert worker.next() == ["n3", "value", 3, ["l", 1, 7, 7], True]


def test_a_second_call_that_gives_no_answer_leaves_the_first_one_told(worker):
    worker.load("calls = []\ndef solve(rows):\n    calls.append(1)\n    return 1 // (2 - len(calls))")

    assert worker.ask("n2", "twice", encode([1]), "n3") == ["n2", "value", 1, None, True]
    assert worker.next() == ["n3", "stop", "raised", "ZeroDivisionError"]
    assert worker.ask("n4", "call", encode([1])) == ["n4", "value", -1, None, True]
