"""The audit under a launcher that sets RANK and WORLD_SIZE: one supervisor a rank, and rank 0 judges."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from audit.launch_helpers import clean_environment, is_alive, wait_for, write_script
from failuremap.audit.launch.job import _free_port

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")


class Launcher:
    """Starts `python -m failuremap.audit` on each rank, as any launcher would; temporary files go to a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()

    def start(self, source: str, *options: str, world_size: int = 2) -> list[subprocess.Popen[str]]:
        """Start all ranks of a script that needs no torch."""
        script = write_script(self.folder, source)
        port = str(_free_port())
        command = [sys.executable, "-m", "failuremap.audit", *options, sys.executable, str(script)]
        environment = clean_environment(MASTER_PORT=port, WORLD_SIZE=str(world_size), TMPDIR=str(self.temporary))
        return [
            subprocess.Popen(
                command,
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world_size)
        ]

    def run(self, source: str, *options: str, world_size: int = 2) -> list[tuple[int, str, str]]:
        """Start all ranks and wait; return exit code, stdout and stderr of each."""
        ranks = self.start(source, *options, world_size=world_size)
        return [(rank.returncode, *outputs) for rank in ranks for outputs in [rank.communicate(timeout=60)]]


@pytest.fixture
def launcher(tmp_path):
    return Launcher(tmp_path)


def test_rank_0_alone_speaks_and_what_was_not_seen_is_not_right(launcher):
    (code, out, _), (other, other_out, _) = launcher.run("import os; print('rank', os.environ['RANK'])")

    assert (code, other) == (3, 0)
    assert out.startswith("rank 0\n") and "not measured" in out
    assert other_out == "rank 1\n"


def test_the_temporary_folder_is_gone(launcher):
    launcher.run("pass")

    assert list(launcher.temporary.iterdir()) == []


def test_a_failed_rank_is_named_by_rank_0_and_keeps_its_code(launcher):
    source = "import os, sys; sys.exit(3 if os.environ['RANK'] == '1' else 0)"

    (code, out, _), (other, _, _) = launcher.run(source)

    assert (code, other) == (4, 3)
    assert "Rank 1 exited with code 3." in out


def test_a_killed_rank_is_named_by_its_signal(launcher):
    source = "import os; os.environ['RANK'] == '1' and os.kill(os.getpid(), 9)"

    (code, out, _), (other, _, _) = launcher.run(source)

    assert (code, other) == (4, 128 + 9)
    assert "Rank 1 was killed by SIGKILL." in out


def test_one_process_without_a_launcher_will_do(launcher):
    script = write_script(launcher.folder, "print('alone')")
    command = [sys.executable, "-m", "failuremap.audit", sys.executable, str(script)]

    result = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)

    assert (result.returncode, result.stdout.splitlines()[0]) == (3, "alone")


def test_a_named_folder_keeps_the_trace_and_the_ends(launcher):
    launcher.run("pass", "--trace", str(launcher.folder / "kept"))

    ends = {path.name: json.loads(path.read_text())["exit_code"] for path in (launcher.folder / "kept").glob("*.exit")}
    assert ends == {"rank0.exit": 0, "rank1.exit": 0}


def test_bad_usage_is_said_once(launcher):
    results = launcher.run("pass", "--timeout", "0")

    assert [(code, out, err) for code, out, err in results] == [
        (2, "", "error: --timeout=0: seconds, above 0; leave it out for no limit.\n"),
        (2, "", ""),
    ]


def test_the_supervisor_imports_no_torch():
    source = "import sys, failuremap.audit.__main__; print('torch' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", source], env=clean_environment(), capture_output=True, text=True)

    assert result.stdout == "False\n"


@linux
def test_a_launcher_that_stops_the_ranks_leaves_no_process(launcher):
    source = f"""
        import os, time
        open(rf"{launcher.folder}/pid" + os.environ["RANK"], "w").write(str(os.getpid()))
        time.sleep(60)
    """
    ranks = launcher.start(source)
    pids = [int(wait_for(launcher.folder / f"pid{rank}")) for rank in range(2)]

    for rank in ranks:
        rank.send_signal(signal.SIGTERM)
    outputs = [rank.communicate(timeout=30)[0] for rank in ranks]

    assert [rank.returncode for rank in ranks] == [4, 128 + signal.SIGTERM]
    assert "The script was interrupted" in outputs[0]
    assert [is_alive(pid) for pid in pids] == [False, False]


@linux
def test_two_ranks_of_one_machine_do_not_clean_up_after_each_other(launcher):
    source = "import os, time; time.sleep(1.0 * (os.environ['RANK'] == '1'))"

    results = launcher.run(source)

    assert [code for code, _, _ in results] == [3, 0]


@pytest.mark.torch
def test_torchrun_starts_the_audit(tmp_path):
    script = write_script(tmp_path, "import os, sys; print('rank', os.environ['RANK'], sys.argv[1:])")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "failuremap.audit"]

    result = subprocess.run(
        [*command, "--promise", "mean", str(script), "--promise", "x"],
        env=clean_environment(TMPDIR=str(tmp_path), OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert "rank 0 ['--promise', 'x']" in result.stdout and "rank 1 ['--promise', 'x']" in result.stdout
    assert result.stdout.count("not measured") == 1
    assert "exitcode  : 3" in result.stderr
    assert [name for name in os.listdir(tmp_path) if name.startswith("failuremap")] == []
