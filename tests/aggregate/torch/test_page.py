"""The loops that docs/pytorch.md shows train the same weights on any number of ranks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from audit.harness import JobServer

pytestmark = pytest.mark.torch

PAGE = Path(__file__).parents[3] / "docs" / "pytorch.md"
LOOPS = dict(
    zip(
        ("ddp", "accumulation", "fully_shard"),
        re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL),
        strict=True,
    )
)
# A few roundings of float32 in each of 8 steps, of weights near 1.
BOUND = {"abs": 1e-5}


def weights_of(server: JobServer, folder: Path, program: str, ranks: int) -> list[float]:
    """Run a program on these ranks and return the numbers that it prints."""
    script = folder / "train.py"
    script.write_text(program)
    result = server.run_job(str(script), [], ranks)
    assert result.ok, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("[[")]
    return [number for row in json.loads(line) for number in row]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_of_the_page_trains_the_same_weights_on_any_number_of_ranks(
    job_server: JobServer, tmp_path: Path, loop: str
) -> None:
    right = weights_of(job_server, tmp_path, LOOPS[loop], 1)

    for ranks in (2, 4):
        assert weights_of(job_server, tmp_path, LOOPS[loop], ranks) == pytest.approx(right, **BOUND)


@pytest.mark.parametrize("loop", LOOPS)
def test_without_its_counts_it_does_not(job_server: JobServer, tmp_path: Path, loop: str) -> None:
    uncounted = re.sub(r"count=\((\w+) != -100\)\.sum\(\)", r"count=int((\1 != -100).any())", LOOPS[loop])
    right = weights_of(job_server, tmp_path, LOOPS[loop], 1)

    assert uncounted != LOOPS[loop]
    assert weights_of(job_server, tmp_path, uncounted, 2) != pytest.approx(right, abs=1e-3)
