"""Run the exported task with a scripted model; print the results as JSON. Run by the Python of the adapters."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest import mock

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.tasks import TaskManager

from failuremap.score.adapters import answers as judging
from score.adapters.scripted import answers


@register_model("scripted")
class Scripted(LM):
    """Answers each question by the family that it is about."""

    def __init__(self, by_prompt: dict[str, str]) -> None:
        super().__init__()
        self.by_prompt = by_prompt

    def generate_until(self, requests, disable_tqdm=False):
        return [self.by_prompt[request.arguments[0]] for request in requests]

    def loglikelihood(self, requests, disable_tqdm=False):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        raise NotImplementedError


def main() -> None:
    folder, suite, failing = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    scripted = answers(suite)
    model = Scripted({one["prompt"]: scripted[one["family"]][1] for one in questions})
    whole = judging.judge

    def judge(source, case, **options):
        verdict = whole(source, case, **options)
        return verdict.model_copy(update={"outcome": "judge-error"}) if case in failing else verdict

    with mock.patch.object(judging, "judge", judge):
        found = simple_evaluate(
            model,
            tasks=[f"failuremap_{suite}"],
            task_manager=TaskManager(include_path=str(folder), include_defaults=False),
            limit=9,
            log_samples=True,
            bootstrap_iters=0,
        )
    samples = found["samples"][f"failuremap_{suite}"]
    print(
        json.dumps(
            {
                "results": {key: str(value) for key, value in found["results"][f"failuremap_{suite}"].items()},
                "solved": {sample["doc"]["family"]: str(sample["solved"]) for sample in samples},
                "asked": {sample["doc"]["family"]: scripted[sample["doc"]["family"]][0] for sample in samples},
                "groups": {sample["doc"]["family"]: sample["doc"]["group"] for sample in samples},
            }
        )
    )


if __name__ == "__main__":
    main()
