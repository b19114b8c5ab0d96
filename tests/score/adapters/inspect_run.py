"""Run the Inspect task with a scripted model; print what it logged as JSON. Run by the Python of the adapters."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from unittest import mock

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from failuremap.score.adapters import answers as judging
from failuremap.score.adapters import inspect as adapter
from failuremap.score.wire import decode, encode, read_line, write_line
from score.adapters.scripted import answers


def main() -> None:
    suite, failing = sys.argv[1], sys.argv[2:]
    scripted = answers(suite)
    in_order = iter([*scripted.values()])

    def reply(messages, tools, tool_choice, config):
        output = ModelOutput.from_content("mockllm", next(in_order)[1])
        output.usage = ModelUsage()  # or the mock would fetch a tokenizer to count
        return output

    with tempfile.TemporaryDirectory() as folder, _failing(failing):
        (log,) = evaluate(
            "failuremap/repairs",
            task_args={"suite": suite},
            model=get_model("mockllm/model", custom_outputs=reply),
            log_dir=folder,
            display="none",
            max_samples=1,
            limit=9,
        )
        print(json.dumps(_told(log, scripted)))


def _told(log, scripted) -> dict[str, object]:
    for sample in log.samples:
        assert sample.error is None, sample.error.traceback
    scores = {sample.id: next(iter(sample.scores.values())) for sample in log.samples}
    return {
        "status": log.status,
        "sandbox": log.eval.sandbox.type,
        "metrics": {name: metric.value for name, metric in log.results.scores[0].metrics.items()},
        "unscored": log.results.scores[0].unscored_samples,
        "values": {name: str(score.value) for name, score in scores.items()},
        "outcomes": {name: score.metadata["outcome"] for name, score in scores.items()},
        "groups": {sample.id: sample.metadata["group"] for sample in log.samples},
        "asked": {name: kind for name, (kind, _) in list(scripted.items())[:9]},
        "box": asyncio.run(_box()),
    }


def _failing(cases: list[str]):
    """Let the judge fail on these cases, as it does where no box opens."""
    if not cases:
        return contextlib.nullcontext()
    whole = judging.judge

    def judge(source, case, **options):
        verdict = whole(source, case, **options)
        return verdict.model_copy(update={"outcome": "judge-error"}) if case in cases else verdict

    return mock.patch.object(judging, "judge", judge)


async def _box() -> dict[str, object]:
    """Use the sandbox as an agent would: write a file, call it, try a shell."""
    box = (await adapter.BoxEnvironment.sample_init("task", None, {}))["default"]
    await box.write_file("candidate.py", "def solve(x): return sum(x)\n")
    line = write_line(encode([1, 2, 0.5])).decode()
    called = await box.exec(["solve", "candidate.py"], input=line)
    shell = await box.exec(["bash", "-c", "id"])
    nonsense = await box.exec(["solve", "candidate.py"], input="1 +")
    return {
        "answer": decode(read_line(called.stdout.encode())),
        "shell": [shell.returncode, shell.stderr],
        "nonsense": [nonsense.returncode, nonsense.stderr],
    }


if __name__ == "__main__":
    main()
