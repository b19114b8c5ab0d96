"""The suites as a task of lm-evaluation-harness: a folder with the task, the questions, and the call of our judge.

failuremap score --export-lm-eval tasks --suite open
lm-eval run --model hf --model_args pretrained=... --include_path tasks --tasks failuremap_open
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from failuremap.errors import InvalidArgument, MissingDependency
from failuremap.score.adapters.answers import judge_answer
from failuremap.score.adapters.prompts import questions
from failuremap.score.statistics import proportion
from failuremap.score.suite import Suite

SOLVED, ERROR = "solved", "clustered_error"

_TASK = """# Written by `failuremap score --export-lm-eval`; it needs failuremap beside lm-eval, and bubblewrap.
task: failuremap_{suite}
custom_dataset: !function failuremap_task.questions
test_split: test
output_type: generate_until
doc_to_text: prompt
doc_to_target: ""
process_results: !function failuremap_task.process_results
generation_kwargs:
  until: []
  max_gen_toks: 4096
  do_sample: false
metric_list:
  # a verdict judge-error is nan, and counts neither way
  - metric: solved
    aggregation: nanmean
    higher_is_better: true
  - metric: clustered_error
    aggregation: !function failuremap_task.clustered_error
    higher_is_better: false
metadata:
  version: 1
"""

_MODULE = '''"""What the task calls: its questions, and the judge."""

from pathlib import Path

from failuremap.score.adapters import lm_eval


def questions(**_):
    return lm_eval.read_questions(Path(__file__).with_name("questions.jsonl"))


process_results = lm_eval.process_results
clustered_error = lm_eval.clustered_error
'''


def export(folder: Path, suite: Suite) -> list[str]:
    """Writes the task of a suite into a folder that isn't there yet, or is empty; returns the names of its files.

    Raises:
        InvalidArgument: The folder holds something, or can't be written.
    """
    lines = [json.dumps({**asdict(one), "suite": suite}, ensure_ascii=False) for one in questions(suite)]
    files = {
        f"failuremap_{suite}.yaml": _TASK.format(suite=suite),
        "failuremap_task.py": _MODULE,
        "questions.jsonl": "".join(f"{line}\n" for line in lines),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidArgument(f"--export-lm-eval {str(folder)!r} holds files; name a new folder, or empty it.")
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"--export-lm-eval {str(folder)!r} can't be written: {error.strerror}.") from error
    return list(files)


def read_questions(path: Path) -> dict[str, Any]:
    """Reads the questions of an exported task as the harness wants them: split -> data set."""
    try:
        import datasets
    except ImportError as error:
        raise MissingDependency("the task of lm-evaluation-harness", "lm-eval", "lm-eval") from error
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {"test": datasets.Dataset.from_list(rows)}


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Judges a model's answer to a question: 1 where it is accepted, nan where the judge failed, else 0."""
    verdict = judge_answer(results[0], doc["id"], doc["suite"])
    value = math.nan if verdict.outcome == "judge-error" else float(verdict.accepted)
    return {SOLVED: value, ERROR: (value, doc["group"])}


def clustered_error(items: Iterable[tuple[float, str]]) -> float:
    """Returns the standard error of `solved`, clustered by evaluation group; nan where there are fewer than two.

    Example:
        >>> round(clustered_error([(1.0, "a"), (0.0, "b"), (0.0, "b"), (1.0, "c"), (math.nan, "c")]), 4)
        0.375
    """
    counted = [(value, group) for value, group in items if not math.isnan(value)]
    if not counted:
        return math.nan
    error = proportion([value for value, _ in counted], [group for _, group in counted]).standard_error
    return math.nan if error is None else error
