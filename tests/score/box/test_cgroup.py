"""A cgroup limits what runs in it, measures it, and is gone afterwards, whoever ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from failuremap.score.box import cgroup
from failuremap.score.limits import MEBIBYTE, Limits

CHILD = "import os; print(len(open('/proc/self/cgroup').read().split('failuremap-')) - 1)"


@pytest.fixture
def group():
    """A cgroup of this machine."""
    if (made := cgroup.make(Limits(memory_bytes=64 * MEBIBYTE))) is None:
        pytest.skip("this user may make no cgroup here that limits memory and processes")
    with made:
        yield made


def run_inside(group: cgroup.Cgroup, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(group.entering([sys.executable, "-c", code]), capture_output=True, text=True)


def test_a_command_runs_inside(group):
    assert int(run_inside(group, CHILD).stdout) == len(group.folders)


def test_memory_is_limited_and_the_kill_is_known(group):
    held = run_inside(group, f"x = bytearray(b'x') * {200 * MEBIBYTE}; print('held')")

    assert (held.returncode, held.stdout) == (-9, "")
    assert group.was_out_of_memory()
    assert group.peak_bytes() > 32 * MEBIBYTE


def test_processor_time_is_measured(group):
    before = group.cpu_s()

    run_inside(group, "sum(range(10**6))")

    assert group.cpu_s() > before
    assert not group.was_out_of_memory()


def test_a_shut_cgroup_lets_no_process_start(group):
    group.shut()

    forked = run_inside(group, "import os\ntry: os.fork()\nexcept OSError as error: print(error.errno)")

    assert int(forked.stdout) > 0


def test_it_is_gone_afterwards():
    if (made := cgroup.make(Limits())) is None:
        pytest.skip("this user may make no cgroup here that limits memory and processes")

    with made:
        assert all(folder.is_dir() for folder in made.folders)

    assert not any(folder.exists() for folder in made.folders)


def machine(folder: Path, cgroups: str, mounts: str) -> Path:
    """Writes what the kernel says of a process."""
    proc = folder / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(cgroups, encoding="ascii")
    (proc / "mountinfo").write_text(mounts.replace("AT", str(folder)), encoding="ascii")
    return proc


V2 = "30 23 0:26 / AT/fs rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_2_takes_the_nearest_folder_whose_children_can_be_limited(tmp_path):
    scope = tmp_path / "fs" / "user.slice" / "app.slice" / "shell.scope"
    scope.mkdir(parents=True)
    for folder, controllers in ((scope, ""), (scope.parent, "memory pids"), (scope.parents[1], "cpu memory pids")):
        (folder / "cgroup.subtree_control").write_text(controllers, encoding="ascii")

    found = cgroup._parents_2(machine(tmp_path, "0::/user.slice/app.slice/shell.scope\n", V2))

    assert found == dict.fromkeys(("cpuacct", "memory", "pids"), scope.parent)


def test_version_2_without_controllers_is_none(tmp_path):
    (tmp_path / "fs").mkdir()
    (tmp_path / "fs" / "cgroup.subtree_control").write_text("hugetlb", encoding="ascii")

    assert cgroup._parents_2(machine(tmp_path, "0::/\n", V2)) == {}


def test_version_1_is_found_in_its_hierarchies_even_below_a_containers_root(tmp_path):
    mounts = "".join(
        f"{n} 31 0:2 /docker/1 AT/{name} rw,relatime - cgroup cgroup rw,{name}\n"
        for n, name in enumerate(("memory", "pids", "cpu,cpuacct"))
    )
    owned = "3:memory:/docker/1\n2:pids:/docker/1/a\n1:cpu,cpuacct:/docker/1\n0::/\n"

    assert cgroup._parents_1(machine(tmp_path, owned, mounts)) == {
        "memory": tmp_path / "memory",
        "pids": tmp_path / "pids" / "a",
        "cpuacct": tmp_path / "cpu,cpuacct",
    }


def test_a_machine_without_cgroups_has_none(tmp_path):
    assert cgroup.make(Limits(), proc=tmp_path) is None


def test_version_2s_files_are_written_and_read(tmp_path):
    (tmp_path / "fs").mkdir()
    (tmp_path / "fs" / "cgroup.subtree_control").write_text("memory pids", encoding="ascii")

    with cgroup.make(Limits(memory_bytes=MEBIBYTE), proc=machine(tmp_path, "0::/\n", V2)) as group:
        (folder,) = group.folders
        group.shut()
        (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n", encoding="ascii")
        (folder / "memory.events").write_text("oom 1\noom_kill 1\n", encoding="ascii")
        (folder / "memory.peak").write_text("4096\n", encoding="ascii")
        seen = group.cpu_s(), group.peak_bytes(), group.was_out_of_memory()
        wrote = {name: (folder / name).read_text(encoding="ascii") for name in ("memory.max", "pids.max")}
        for file in folder.iterdir():
            file.unlink()

    assert seen == (2.5, 4096, True)
    assert wrote == {"memory.max": str(MEBIBYTE), "pids.max": "1"}
    assert not folder.exists()
