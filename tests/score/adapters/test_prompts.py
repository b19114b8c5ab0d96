"""What a model is asked: no repair, no check that it may not see; and what in its answer is the candidate."""

from __future__ import annotations

import json

import pytest

from failuremap.catalogue import mechanisms
from failuremap.errors import InvalidArgument
from failuremap.score.adapters import answers, lm_eval
from failuremap.score.adapters.prompts import candidate_in, questions
from failuremap.score.forms import candidate_of
from failuremap.score.suite import SUITES, families


@pytest.mark.parametrize("suite", SUITES)
def test_there_is_a_question_for_each_family_and_none_shows_the_repair(suite):
    asked = questions(suite)

    assert [one.family for one in asked] == list(families(suite))
    for one in asked:
        entry = mechanisms()[one.family]
        shown = candidate_of(entry, "broken") + candidate_of(entry, "attempt")
        own = [line for line in candidate_of(entry).splitlines()[1:] if line.strip() not in shown]
        assert suite == "member" or not [line for line in own if len(line) > 50 and line in one.prompt]
        assert candidate_of(entry).partition("\n")[2] not in one.prompt


def test_a_sealed_question_shows_the_contract_alone():
    for one in questions("sealed"):
        entry = mechanisms()[one.family]
        assert entry.contract in one.prompt
        assert "```python\ndef" not in one.prompt
        assert entry.slug not in one.prompt and entry.title not in one.prompt


def test_an_open_question_shows_the_forms_that_fail():
    one = questions("open")[0]

    assert candidate_of(mechanisms()[one.family], "attempt").rstrip() in one.prompt


@pytest.mark.parametrize(
    ("answer", "candidate"),
    [
        ("```python\na = 1\n```\nor rather\n```py\na = 2\n```\n", "a = 2\n"),
        ("```\na = 1\n```", "a = 1\n"),
        ("```bash\nls\n```\n```python\na = 1\n```\n```json\n{}\n```", "a = 1\n"),
        ("a = 1\n", "a = 1\n"),
        ("", ""),
    ],
)
def test_the_candidate_is_the_last_python_block_or_the_whole_answer(answer, candidate):
    assert candidate_in(answer) == candidate


def test_the_sealed_suite_is_not_judged_without_the_operators_key(monkeypatch):
    monkeypatch.delenv(answers.KEY_VARIABLE, raising=False)

    with pytest.raises(
        InvalidArgument, match="suite='sealed' needs FAILUREMAP_SEASON_KEY, the file of the season's key"
    ):
        answers.judge_answer("", "FM-031", "sealed")


def test_half_of_a_surrogate_pair_in_an_answer_is_a_verdict(monkeypatch):
    monkeypatch.delenv(answers.KEY_VARIABLE, raising=False)

    assert answers.judge_answer("# \ud800", "FM-001", "open").outcome == "malformed"


def test_the_export_writes_a_task_its_module_and_a_question_a_line(tmp_path):
    names = lm_eval.export(tmp_path / "new" / "task", "member")

    assert names == ["failuremap_member.yaml", "failuremap_task.py", "questions.jsonl"]
    lines = (tmp_path / "new" / "task" / "questions.jsonl").read_text().splitlines()
    assert [json.loads(line)["family"] for line in lines] == list(families("member"))


def test_the_export_writes_into_no_folder_of_others(tmp_path):
    (tmp_path / "notes.txt").touch()

    with pytest.raises(InvalidArgument, match="holds files; name a new folder, or empty it"):
        lm_eval.export(tmp_path, "open")
    with pytest.raises(InvalidArgument, match="can't be written: File exists"):
        lm_eval.export(tmp_path / "notes.txt", "open")
