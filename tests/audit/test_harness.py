"""The harness itself: ranks that end, fail, hang and leave children; the corpus is what it says it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from audit import test_loss_forms, test_masters
from audit.harness import JOBS, JobServer, Outcome, weights_differ
from audit.test_jobs import representatives
from jobs.expectations import CASES, Case

pytestmark = pytest.mark.torch

# The ways in which cases can be right or wrong; `make test-slow` checks the first case of each script and mechanism,
# and `python tests/audit/harness.py --check` all of them.
QUICK = {
    "manual-sum", "manual-flat", "ddp-no-sync", "accum", "finetune-items-2x2", "staged-manual", "epoch-tail-ddp",
    "manual-counts-skew-2", "ddp-sync-second-of-3", "ddp-head-outside", "accum-first-only", "epoch-tail-full-divisor",
}  # fmt: skip


def script(folder: Path, text: str) -> str:
    path = folder / "job.py"
    path.write_text(text)
    return str(path)


def test_ranks_see_what_a_launcher_gives_them(job_server: JobServer, tmp_path: Path) -> None:
    text = "import os, sys\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], __name__, sys.argv[1:])"

    result = job_server.run_job(script(tmp_path, text), ["--a", "1"], 2)

    assert result.exit_codes == [0, 0]
    assert result.output == "0 2 __main__ ['--a', '1']\n1 2 __main__ ['--a', '1']\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [("raise SystemExit(3)", 3), ("1 / 0", 1), ("import os; os._exit(7)", 7), ("import os; os.abort()", -6)],
)
def test_exit_codes_are_the_scripts_own(job_server: JobServer, tmp_path: Path, text: str, code: int) -> None:
    assert job_server.run_job(script(tmp_path, text), [], 1).exit_codes == [code]


def test_a_hanging_rank_is_killed_when_its_time_is_up(job_server: JobServer, tmp_path: Path) -> None:
    started = time.monotonic()

    result = job_server.run_job(script(tmp_path, "import time; time.sleep(60)"), [], 2, timeout=0.5)

    assert result.exit_codes == [None, None]
    assert time.monotonic() - started < 10


def test_children_of_a_rank_do_not_outlive_it(job_server: JobServer, tmp_path: Path) -> None:
    text = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"

    result = job_server.run_job(script(tmp_path, text), [], 1)

    assert ended(int(result.output))


def ended(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.01)
    return False


def test_every_script_has_a_case() -> None:
    used = {case.script for case in CASES}
    used |= {case.script for case in [*test_loss_forms.CASES, *test_masters.CASES]}
    helpers = {"expectations.py", "options.py", "hidden_losses.py", "tinytext.py"}

    assert {path.name for path in JOBS.glob("*.py")} - helpers == used


def test_case_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("row", "outcome", "named", "good"),
    [
        ({}, "wrong", ["a"], True),
        ({}, "wrong", ["b", "a"], True),
        ({}, "wrong", ["b"], False),
        ({}, "wrong", ["a", "c"], False),
        ({}, "wrong", [], False),
        ({}, "right", [], False),
        ({"planted": False}, "wrong", ["b"], True),
        ({"planted": False}, "wrong", [], False),
        ({"planted": False}, "wrong", ["c"], False),
        ({"slugs": ()}, "wrong", [], True),
        ({"slugs": ()}, "wrong", ["a"], False),
        ({"outcomes": ("right",)}, "right", [], True),
        ({"outcomes": ("right",)}, "wrong", ["a"], False),
    ],
)
def test_a_verdict_is_as_expected_where_the_planted_mechanism_is_named_and_no_other(row, outcome, named, good) -> None:
    case = Case(
        **{"name": "", "script": "", "args": "", "nproc": 1, "outcomes": ("wrong",), "slugs": ("a", "b"), **row}
    )

    assert Outcome(case, 0, outcome, tuple(named), "", 0.0).as_expected is good


def checked() -> list[object]:
    names = QUICK | representatives()
    cases = [case for case in CASES if case.tolerance is not None and case.name in names]
    return [pytest.param(c, id=c.name, marks=() if c.name in QUICK else pytest.mark.slow) for c in cases]


@pytest.mark.parametrize("case", checked())
def test_a_case_trains_the_weights_of_one_process_if_and_only_if_it_is_right(job_server: JobServer, case: Case) -> None:
    assert case.tolerance is not None
    near = weights_differ(job_server, case) < case.tolerance

    assert near == case.is_right
