"""What attach, the handle and clipping refuse: one clear error on every rank, and the model as it was before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggregate.torch.attached import answers
from audit.harness import JobServer

pytestmark = pytest.mark.torch

VOID = "This step is void: its gradients are dropped, no weight has changed."


def read_refusals(text: str) -> dict[str, list[str]]:
    """Return the messages of each case."""
    _, *parts = text.split("\n[")
    return {part.split("]\n")[0]: part.split("]\n", 1)[1].splitlines() for part in (p.rstrip() for p in parts)}


SAID = read_refusals((Path(__file__).parent / "refusals.txt").read_text(encoding="utf-8"))
TOO_EARLY = SAID["step_left_out"][0]


@pytest.fixture(scope="module")
def said(job_server: JobServer) -> dict[tuple[str, int], list[str]]:
    """What each rank said in each case."""
    found: list[dict[str, Any]] = answers(job_server, "refused.py", [], 2)
    return {(answer["case"], answer["rank"]): answer["messages"] for answer in found}


def test_every_case_is_expected(said: dict[tuple[str, int], list[str]]) -> None:
    assert {case for case, _ in said} == {*SAID, "one_rank_fails"}


@pytest.mark.parametrize("case", SAID)
def test_the_error_names_the_value_and_the_rank_on_every_rank(
    said: dict[tuple[str, int], list[str]], case: str
) -> None:
    for rank in (0, 1):
        expected = [message.replace("{rank}", str(rank)) for message in SAID[case]]
        assert said[case, rank] == expected


def test_where_a_backward_fails_on_one_rank_the_step_is_void_on_all(said: dict[tuple[str, int], list[str]]) -> None:
    assert said["one_rank_fails", 0] == [
        "returned None",
        f"StepVoid: a backward failed on rank 1. {VOID}",
        "gradients: 0",
        "returned None",
        "returned True",
    ]
    assert said["one_rank_fails", 1] == [
        "RuntimeError: out of memory",
        f"StepVoid: a backward failed on rank 1 (RuntimeError: out of memory). {VOID}",
        "gradients: 0",
        "returned None",
        "returned True",
    ]


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_after_a_failed_collective_the_step_is_void_and_the_weights_are_as_before(
    job_server: JobServer, wrapper: str
) -> None:
    found = answers(job_server, "lost.py", [wrapper], 3)

    assert [answer["rank"] for answer in found] == [0, 1]
    for answer in found:
        early, void = answer["said"]
        assert early == TOO_EARLY.replace("{rank}", str(answer["rank"]))
        assert void.startswith(f"StepVoid: a backward failed on rank {answer['rank']} (RuntimeError: ")
        assert void.endswith(VOID)
        assert answer["gradients"] == 0 and answer["kept"]
