"""The audit's verdict on jobs under frameworks, each script as its users write it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from audit.harness import JobServer, audit_case
from jobs.expectations import Case
from jobs.frameworks.cases import CASES, FRAMEWORKS, ZERO, Framework

pytestmark = [pytest.mark.torch, pytest.mark.frameworks, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
PARAMS = [pytest.param(name, case, id=case.name) for name, cases in CASES.items() for case in cases]


def demand(framework: Framework) -> None:
    """Skip, or fail in CI, if a framework is not installed."""
    missing = [folder.name for folder in framework.folders if not (folder / ".installed").exists()]
    if not missing:
        return
    if "all" in os.environ.get("FAILUREMAP_REQUIRE", "").split(","):
        pytest.fail(f"{missing} not in .venv-frameworks, and FAILUREMAP_REQUIRE demands it: make frameworks")
    pytest.skip(f"{missing} not in .venv-frameworks; install it: make frameworks")


@pytest.fixture(scope="module")
def framework_server() -> Iterator[Callable[[str], JobServer]]:
    """A function that returns a job server which has imported a framework, started once."""
    with contextlib.ExitStack() as stack:
        started: dict[str, JobServer] = {}

        def server(name: str) -> JobServer:
            demand(FRAMEWORKS[name])
            if name not in started:
                started[name] = stack.enter_context(JobServer(FRAMEWORKS[name].folders, FRAMEWORKS[name].modules))
            return started[name]

        yield server


@pytest.mark.parametrize(("framework", "case"), PARAMS)
def test_verdict(framework_server: Callable[[str], JobServer], framework: str, case: Case) -> None:
    got = audit_case(framework_server(framework), case)

    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence}; expected {case.outcomes} {case.slugs}"


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_trains_the_same_weights_with_the_audit_and_without(
    framework_server: Callable[[str], JobServer], stage: int, tmp_path: Path
) -> None:
    import torch

    saved = []
    for trace in (None, tmp_path):
        args = f"--stage {stage} --accum 2 --clip 0.05 --precision bf16 --save {tmp_path}/weights.pt".split()
        result = framework_server("deepspeed").run_job(ZERO, args, 2, trace, timeout=120)
        assert result.ok, result.output[-2000:]
        saved.append(torch.load(tmp_path / "weights.pt"))

    assert len(list(tmp_path.glob("*.trace"))) == 2
    assert [name for name in saved[0] if not torch.equal(*(weights[name] for weights in saved))] == []


def test_each_framework_has_a_right_job_and_a_wrong_one() -> None:
    assert [name for name, cases in CASES.items() if {case.is_right for case in cases} != {True, False}] == []


PAGES = {"huggingface": "--nproc 2", "trl": "--nproc 2", "lightning": "--nproc 2", "jax": ""}


@pytest.mark.parametrize("page", PAGES)
def test_the_script_of_a_page_gets_the_sentence_that_it_shows(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "frameworks" / f"{page}.md").read_text(encoding="utf-8")
    (script,), (shown,) = blocks_of(text, "py"), blocks_of(text, "text")
    (command,) = [line for line in blocks_of(text, "bash")[0].splitlines() if line.startswith("failuremap")]
    folders = []
    if page in FRAMEWORKS:
        demand(FRAMEWORKS[page])
        folders = FRAMEWORKS[page].folders
    (tmp_path / "train.py").write_text(script)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "118",
    }
    run = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=tmp_path, capture_output=True, text=True, env=env, timeout=300
    )

    assert (command.split()[2:-2], run.returncode) == (PAGES[page].split(), 1), run.stderr[-2000:]
    assert " ".join(shown.split()) in " ".join(run.stdout.split())


def blocks_of(text: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
