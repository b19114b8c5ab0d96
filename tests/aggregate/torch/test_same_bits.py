"""exact=True: the same micro-batches train the same bits on any number of ranks, under any wrapper."""

from __future__ import annotations

import pytest

from aggregate.torch.attached import answers
from audit.harness import JobServer

pytestmark = pytest.mark.torch

MAIN = [("plain", 1), ("ddp", 2), ("ddp", 4), ("fsdp", 2)]
OTHERS = [("ddp", 1), ("ddp-each", 2), ("ddp-each", 4), ("fsdp", 1), ("fsdp", 4), ("hsdp", 4)]


def hashes(server: JobServer, jobs: list[tuple[str, int]], *args: str) -> set[str]:
    return {a["hash"] for wrapper, ranks in jobs for a in answers(server, "same_bits.py", [wrapper, *args], ranks)}


def test_exact_sums_train_one_hash_on_one_two_and_four_ranks(job_server: JobServer) -> None:
    assert len(hashes(job_server, MAIN, "exact")) == 1


@pytest.mark.slow
def test_exact_sums_train_one_hash_however_windows_are_reduced(job_server: JobServer) -> None:
    assert len(hashes(job_server, [*MAIN[:1], *OTHERS], "exact")) == 1


def test_ordinary_sums_train_another_hash_on_each_number_of_ranks(job_server: JobServer) -> None:
    assert len(hashes(job_server, [("ddp", 1), ("ddp", 2), ("ddp", 4)])) == 3
