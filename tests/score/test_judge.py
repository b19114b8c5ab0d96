"""The judge on real candidates in a real box: each outcome, what a verdict tells, and what it keeps to itself."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from failuremap.catalogue import mechanism
from failuremap.errors import InvalidArgument
from failuremap.score import Verdict, examination, judge
from failuremap.score.box import bubblewrap, unshare
from failuremap.score.fixtures import held_back
from failuremap.score.forms import candidate_of
from failuremap.score.judging import sealed
from failuremap.score.verdict import Counterexample, schema_text, to_json
from failuremap.score.words import verdict_lines
from score.candidates import candidates

KEY = bytes(range(32))
SUM = "FA-99246"
RIGHT_SUM = b"def solve(parts):\n    return [sum(column) for column in zip(*parts)]\n"
MEAN = b"def solve(parts):\n    return [sum(column) / len(parts) for column in zip(*parts)]\n"


def judged(source: bytes | Path, case: str = SUM, **options: Any) -> Verdict:
    """Judge in the best box that this machine has."""
    return judge(source, case, trust_candidate=True, **{"key": KEY, **options})


def wrong_candidate(name: str) -> bytes:
    return next(one.source for one in candidates("wrong") if one.name == name).encode()


@pytest.fixture(scope="module")
def accepted() -> Verdict:
    return judged(candidate_of(mechanism("replica-means-ignore-counts")).encode(), "FA-99241")


@pytest.fixture(scope="module")
def refused() -> Verdict:
    return judged(MEAN)


def test_a_repair_is_accepted_with_every_clause_held(accepted: Verdict):
    assert (accepted.outcome, accepted.accepted, accepted.case) == ("accepted", True, "FM-001-1")
    assert accepted.mechanism == "replica-means-ignore-counts"
    assert list(accepted.clauses) == [
        *("weighs-by-count", "equal-counts", "zero-count", "zero-total", "single", "any-input", "purity")
    ]
    assert set(accepted.clauses.values()) == {True}
    assert accepted.counts.public_passed == accepted.counts.public_total == 7
    assert accepted.counts.held_back_passed == accepted.counts.held_back_total >= 90
    assert accepted.sentence == (
        f"It keeps the contract on all inputs: 7 published and {accepted.counts.held_back_total} held back."
    )


def test_a_verdict_says_how_exact_the_repair_is(accepted: Verdict):
    assert accepted.numerics is not None
    assert accepted.numerics.worst_ulps > 0
    assert accepted.numerics.order_independent is False


def test_a_correctly_rounded_sum_depends_on_no_order():
    verdict = judged(b"import math\ndef solve(parts): return [math.fsum(column) for column in zip(*parts)]")

    assert verdict.numerics is not None
    assert (verdict.numerics.worst_ulps, verdict.numerics.order_independent) == (0.0, True)


def test_a_wrong_rule_breaks_its_clauses_and_is_shown_where(refused: Verdict):
    assert refused.outcome == "wrong"
    assert refused.clauses == {
        "adds-up": False,
        "signs": False,
        "single": True,
        "empty": True,
        "any-input": False,
        "purity": True,
    }
    assert refused.counterexample is not None
    assert refused.sentence == (
        "It breaks the contract: adds-up, signs, any-input; "
        "solve([[2], [1]]) gives [1.5], and [3] is right (three partials, N=1)."
    )
    assert refused.numerics is None


def test_what_is_right_on_the_published_inputs_alone_shows_nothing_of_the_others():
    verdict = judged(wrong_candidate("right_for_a_hundred_rows"), "FM-001-1")
    secret = held_back(mechanism("replica-means-ignore-counts"), "FM-001-1", KEY, verdict.candidate_sha256)
    text = to_json(verdict)

    assert verdict.outcome == "wrong"
    assert verdict.counterexample is None
    assert verdict.sentence == (
        "It breaks the contract: any-input; on the published inputs it is right, on others it is not."
    )
    assert [fixture.label for fixture in secret if fixture.given and repr(fixture.given) in text] == []


def test_a_candidate_that_changes_its_input_breaks_purity():
    verdict = judged(wrong_candidate("filters_in_place"), "FA-99241")

    assert verdict.outcome == "wrong"
    assert verdict.clauses["purity"] is False
    assert verdict.sentence == (
        "It breaks the contract: purity; "
        "a call changes what it was given or has answered, or a second call on the same object gives another answer."
    )


def test_a_candidate_that_remembers_calls_is_wrong():
    verdict = judged(
        b"seen = []\n" + RIGHT_SUM.replace(b"return", b"seen.append(1)\n    return [] if len(seen) == 9 else")
    )

    assert verdict.outcome == "wrong"
    assert verdict.clauses["purity"] is False


@pytest.mark.parametrize(
    "source",
    [
        (
            "kept = [[]]\ndef solve(parts):\n    if kept[-1] is not parts: kept.pop().clear()\n"
            "    kept.append(parts)\n    return [sum(column) for column in zip(*parts)]"
        ),
        "kept = []\ndef solve(parts):\n    kept[:] = [sum(column) for column in zip(*parts)]\n    return kept",
        "kept = {}\ndef solve(parts): return kept.setdefault(id(parts), [sum(column) for column in zip(*parts)])[:]",
        (
            "ring = [[], []]\ndef solve(parts):\n    ring.append(ring.pop(0))\n"
            "    ring[-1][:] = [sum(column) for column in zip(*parts)]\n    return ring[-1]"
        ),
        (
            "kept = {}\ndef solve(parts):\n    key = repr(parts).replace('-', '')\n"
            "    return kept.setdefault(key, [sum(column) for column in zip(*parts)])[:]"
        ),
    ],
    ids=["earlier input emptied", "one list for all answers", "cache by id", "two lists in turn", "cache by size"],
)
def test_what_a_candidate_keeps_between_calls_is_found(source: str):
    assert judged(source.encode()).outcome == "wrong"


def test_a_number_beyond_all_floats_is_a_wrong_answer():
    verdict = judged(b"def solve(parts): return [1 << 16000 for _ in (parts or [[]])[0]]")

    assert verdict.outcome == "wrong"
    assert "gives a number of thousands of digits, and" in verdict.sentence


def test_a_long_answer_is_cut_in_the_sentence():
    verdict = judged(b"def solve(parts): return [0] * 2000")

    assert verdict.outcome == "wrong"
    assert "..., and [] is right" in verdict.sentence
    assert len(verdict.sentence) < 2000


def test_a_file_may_begin_with_a_mark_of_its_byte_order_and_end_its_lines_as_windows_does():
    assert judged(b"\xef\xbb\xbf" + RIGHT_SUM.replace(b"\n", b"\r\n")).accepted


def test_a_cache_by_value_is_no_trace():
    source = "import functools\n\ndef solve(parts): return list(of(repr(parts)))\n\n@functools.cache\ndef of(text):\n"
    source += "    nan, inf = float('nan'), float('inf')\n    return [sum(column) for column in zip(*eval(text))]\n"

    assert judged(source.encode()).accepted


def test_a_candidate_that_raises_has_crashed_and_what_came_later_is_open():
    verdict = judged(
        b"def solve(parts):\n    return [sum(column) for column in zip(*parts, strict=True)] + parts[2][:0]"
    )

    assert verdict.outcome == "crashed"
    assert "IndexError" in verdict.sentence
    assert verdict.clauses["adds-up"] is False
    assert verdict.clauses["any-input"] is None
    assert verdict.counterexample == Counterexample(
        fixture="two workers, N=1", given="[[1, 2], [3, 4]]", expected="[4, 6]", actual=verdict.sentence
    )
    assert "  input       solve([[1, 2], [3, 4]]), where [4, 6] is right (two workers, N=1)" in verdict_lines(verdict)


def test_a_candidate_that_raises_on_held_back_inputs_alone_shows_none():
    verdict = judged(b"def solve(parts): return [sum(column) for column in zip(*parts)] if len(parts) < 100 else 1 / 0")

    assert (verdict.outcome, verdict.counterexample) == ("crashed", None)


def test_a_sealed_case_tells_no_input():
    verdict = judged(b"def solve(parts): return 1 / 0")

    assert sealed(verdict) == verdict.model_copy(update={"counterexample": None})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"def solve(parts): return tuple(parts)", "a tuple where a list is expected"),
        (b"def solve(parts): return None", "None where a list is expected"),
        (b"def solve(parts): return [True for _ in (parts or [[]])[0]]", "a bool where a number is expected"),
        (b"", "defines no solve"),
        (b"def solve(:", "syntax error in line 1"),
        (b"\xff\xfe", "not UTF-8"),
        (b"#" * 70_000, "70000 bytes"),
    ],
    ids=["tuple", "none", "bool", "empty", "syntax", "bytes", "large"],
)
def test_what_is_no_candidate_or_no_answer_is_malformed(source: bytes, words: str):
    verdict = judged(source)

    assert verdict.outcome == "malformed"
    assert words in verdict.sentence


def test_a_candidate_that_is_not_there_or_is_a_folder_gets_a_verdict(tmp_path: Path):
    missing, folder = judged(tmp_path / "repair.py"), judged(tmp_path)

    assert (missing.outcome, folder.outcome) == ("malformed", "malformed")
    assert missing.sentence == f"candidate='{tmp_path}/repair.py' can't be read: No such file or directory"
    assert folder.sentence == f"candidate='{tmp_path}' is a folder; give the file that defines solve"
    assert missing.candidate_sha256 == ""


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.py")

    assert judged(tmp_path / "pipe.py").sentence == (
        f"candidate='{tmp_path}/pipe.py' is no regular file; give the file that defines solve"
    )
    assert judged(Path("/dev/zero")).outcome == "malformed"


def test_a_file_is_judged_as_its_bytes_are(tmp_path: Path):
    (tmp_path / "repair.py").write_bytes(RIGHT_SUM)

    assert judged(tmp_path / "repair.py").candidate_sha256 == hashlib.sha256(RIGHT_SUM).hexdigest()


def test_whoever_is_given_the_key_gets_the_same_verdict(refused: Verdict):
    fresh = judged(MEAN, key=None, reveal_key=True)
    again = judged(MEAN, key=bytes.fromhex(fresh.key))

    assert fresh.key_commitment == hashlib.sha256(bytes.fromhex(fresh.key)).hexdigest()
    assert fresh.key_commitment == again.key_commitment != refused.key_commitment
    assert (again.clauses, again.counts) == (fresh.clauses, fresh.counts)
    assert again.key is None


def test_all_variants_are_judged_at_once_where_the_case_names_none():
    verdict = judged(RIGHT_SUM, "partials-averaged")

    assert (verdict.case, verdict.counts.public_total) == ("FM-002", 30)


def test_a_fault_of_the_oracle_counts_against_nobody(monkeypatch: pytest.MonkeyPatch):
    def failing(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(examination, "exact_answer", failing)
    verdict = judged(RIGHT_SUM)

    assert verdict.outcome == "judge-error"
    assert set(verdict.clauses.values()) == {None}
    assert verdict.sentence == (
        "The judge failed, which says nothing of the candidate: KeyError in the oracle of partials-averaged "
        "at 'two workers, N=1'; report it with the case and the candidate."
    )


def test_without_a_sound_box_only_a_trusted_candidate_runs_at_the_highest_level_there_is(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(bubblewrap, "missing", lambda: "bubblewrap is absent")
    refused = judge(RIGHT_SUM, SUM, key=KEY)
    lower = judge(RIGHT_SUM, SUM, key=KEY, trust_candidate=True)
    monkeypatch.setattr(unshare, "missing", lambda: "unshare is absent")
    lowest = judge(RIGHT_SUM, SUM, key=KEY, trust_candidate=True)

    assert refused.outcome == "judge-error"
    assert "no box opens here that is sound enough" in refused.sentence
    assert (lower.outcome, lowest.outcome) == ("accepted", "accepted")
    assert lower.box_level in ("box-1", "none")  # where this user may make no namespaces
    assert lowest.box_level == "none"


def test_a_short_key_and_a_case_without_code_are_refused():
    with pytest.raises(InvalidArgument) as short:
        judge(RIGHT_SUM, SUM, key=b"season")
    with pytest.raises(InvalidArgument, match="case='FA-00000' names no case"):
        judge(RIGHT_SUM, "FA-00000")

    assert str(short.value) == "key has 6 bytes; a key that nobody guesses has 16 or more."


def test_verdicts_are_what_the_published_schema_says(accepted: Verdict, refused: Verdict):
    schema = json.loads(schema_text())

    for verdict in (accepted, refused):
        jsonschema.validate(json.loads(to_json(verdict)), schema)
        assert Verdict.model_validate_json(to_json(verdict)) == verdict
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(to_json(accepted)) | {"outcome": "fine"}, schema)
