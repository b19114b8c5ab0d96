"""The suites as a task of Inspect, with our box as its sandbox and the judge as its scorer.

    inspect eval failuremap/repairs --model openai/gpt-5 -T suite=open

A candidate runs nowhere but in the box. A verdict `judge-error` leaves the sample without a score, so that it counts
neither way; accuracy has its standard error clustered by evaluation group.
"""

from __future__ import annotations

from typing import Any

import anyio

from failuremap.errors import MissingDependency
from failuremap.score.adapters.answers import judge_answer
from failuremap.score.adapters.prompts import candidate_in, questions
from failuremap.score.box import open_box
from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped
from failuremap.score.suite import Suite
from failuremap.score.wire import WireError, decode, encode, read_line, write_line

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, Target, accuracy, scorer, stderr
    from inspect_ai.solver import TaskState, generate
    from inspect_ai.util import ExecResult, SandboxEnvironment, sandbox, sandboxenv
except ImportError as error:
    raise MissingDependency("the Inspect task", "inspect-ai", "inspect") from error

SANDBOX = "failuremap"
CANDIDATE = "candidate.py"
_NO_COMMAND = 127
_NO_ANSWER = 1


@task
def repairs(suite: Suite = "open") -> Task:
    """Returns the task of a suite: a question for each family, answered by a repair.

    Args:
        suite: `open` shows the contract and the forms that fail, `member` the published checks besides, and `sealed`
            the contract alone, of the families that are held back; it needs the season's key in the environment.
    """
    samples = [
        Sample(id=one.family, input=one.prompt, target=one.id, metadata={"group": one.group, "suite": suite})
        for one in questions(suite)
    ]
    return Task(
        dataset=MemoryDataset(samples, name=f"failuremap-{suite}"),
        solver=generate(),
        scorer=repaired(),
        sandbox=SANDBOX,
    )


@scorer(metrics=[accuracy(), stderr(cluster="group")])
def repaired() -> Any:
    """Returns the scorer: the judge's verdict on the candidate in the model's answer."""

    async def score(state: TaskState, target: Target) -> Score:
        answer = state.output.completion
        await sandbox().write_file(CANDIDATE, candidate_in(answer))
        verdict = await anyio.to_thread.run_sync(judge_answer, answer, target.text, state.metadata["suite"])
        told = {"outcome": verdict.outcome, "verdict": verdict.model_dump(mode="json")}
        if verdict.outcome == "judge-error":
            return Score.unscored(reason="judge-error", explanation=verdict.sentence, metadata=told)
        return Score(
            value=CORRECT if verdict.accepted else INCORRECT,
            answer=candidate_in(answer),
            explanation=verdict.sentence,
            metadata=told,
        )

    return score


@sandboxenv(name=SANDBOX)
class BoxEnvironment(SandboxEnvironment):
    """Files in memory, and one command: `solve FILE` calls the candidate in a file with the value on standard input.

    The value, and the answer on standard output, are lines in the form of `failuremap.score.wire`. There is no shell,
    and no other program.
    """

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}

    @classmethod
    async def sample_init(
        cls, task_name: str, config: object, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Returns an environment for a sample."""
        return {"default": cls()}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: object, environments: dict[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        """Leaves nothing to clean up: a box ends with its call."""

    async def exec(self, cmd: list[str], input: str | bytes | None = None, **_: Any) -> ExecResult[str]:
        """Calls the candidate in a box; any other command is refused as a shell refuses what it doesn't find."""
        if len(cmd) != 2 or cmd[0] != "solve":
            message = f"{' '.join(cmd)!r}: this box has no programs; it calls a candidate:  solve {CANDIDATE}\n"
            return ExecResult(success=False, returncode=_NO_COMMAND, stdout="", stderr=message)
        source = await self.read_file(cmd[1], text=False)
        text = input.encode() if isinstance(input, str) else input or b""
        return await anyio.to_thread.run_sync(_solved, source, text)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Keeps a file."""
        self._files[file] = contents.encode() if isinstance(contents, str) else contents

    async def read_file(self, file: str, text: bool = True) -> Any:
        """Returns what was kept."""
        if file not in self._files:
            raise FileNotFoundError(file)
        contents = self._files[file]
        return contents.decode() if text else contents


def _solved(source: bytes, line: bytes) -> ExecResult[str]:
    """Calls a candidate once in a box."""
    try:
        argument = decode(read_line(line))
        with open_box(source, Limits()) as box:
            answer = write_line(encode(box.call(argument).value)).decode()
    except (WireError, ValueError) as error:
        return ExecResult(success=False, returncode=_NO_ANSWER, stdout="", stderr=f"no value on the line: {error}\n")
    except Stopped as stopped:
        message = f"{stopped.outcome}: {stopped.reason}\n"
        return ExecResult(success=False, returncode=_NO_ANSWER, stdout="", stderr=message)
    return ExecResult(success=True, returncode=0, stdout=answer, stderr="")
