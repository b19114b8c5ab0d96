"""The capture gets into every Python process of an audited job, once, and disturbs none.

`torch` and `failuremap` are stand-ins here, in folders of their own: real processes import them in milliseconds, and
`install` leaves one line for each call.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.launch_helpers import write_script
from failuremap.audit.launch.job import BOOTSTRAP, Job

INSTALL = """
    import os, sys
    def install():
        ready = hasattr(sys.modules["torch"], "tensor")
        with open(os.environ["CALLS"], "a") as calls:
            calls.write(f"install ready={ready}\\n")
"""


class World:
    """A folder with a stand-in for torch and one for failuremap, and a file with the calls of `install`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for package in ("torch", "failuremap/audit/capture"):
            (folder / "lib" / package).mkdir(parents=True)
        (folder / "lib/failuremap/__init__.py").touch()
        (folder / "lib/torch/__init__.py").write_text("import torch.nn\ntensor = 1\n")
        (folder / "lib/torch/nn.py").touch()
        self.install(INSTALL)

    def install(self, source: str) -> None:
        write_script(self.folder / "lib/failuremap/audit/capture", source, "__init__.py")

    def run(self, source: str, *options: str, traced: bool = True, path: str = "") -> subprocess.CompletedProcess[str]:
        """Run a script as the launcher would."""
        script = write_script(self.folder, source)
        search = [str(BOOTSTRAP), *([path] if path else []), str(self.folder / "lib")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search), "CALLS": str(self.folder / "calls")}
        environment |= {"FAILUREMAP_TRACE_DIR": str(self.folder)} if traced else {}
        command = [sys.executable, *options, str(script)]
        return subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=30)

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_capture_starts_after_torch_has_been_executed(world):
    world.run("import torch")

    assert world.calls == ["install ready=True"]


def test_capture_starts_once_however_often_torch_is_imported(world):
    world.run("import importlib, sys, torch, torch.nn\nimportlib.reload(torch)\ndel sys.modules['torch']\nimport torch")

    assert world.calls == ["install ready=True"]


def test_a_script_without_torch_is_not_captured(world):
    result = world.run("import sys; print('torch' in sys.modules, 'numpy' in sys.modules)")

    assert (result.stdout, world.calls) == ("False False\n", [])


def test_outside_an_audit_nothing_starts(world):
    world.run("import torch", traced=False)

    assert world.calls == []


def test_looking_for_torch_without_importing_it_starts_nothing(world):
    result = world.run("import importlib.util; print(importlib.util.find_spec('torch').name)")

    assert (result.stdout, world.calls) == ("torch\n", [])


def test_a_torch_that_fails_to_import_fails_as_it_would(world):
    (world.folder / "lib/torch/__init__.py").write_text("raise ImportError('libcudart.so.12 is missing')")

    result = world.run("import torch")

    assert result.stderr.endswith("ImportError: libcudart.so.12 is missing\n")
    assert world.calls == []


def test_a_capture_that_fails_is_one_line_and_the_script_goes_on(world):
    world.install("def install():\n    raise OSError('disk full')")

    result = world.run("import torch; print('trained')")

    assert (result.returncode, result.stdout) == (0, "trained\n")
    assert result.stderr == "failuremap: capture did not start: OSError: disk full\n"


def test_the_loader_of_torch_stays_its_own(world):
    result = world.run(
        "import torch; print(type(torch.__loader__).__name__, vars(torch.__loader__).keys() & {'exec_module'})"
    )

    assert result.stdout == "SourceFileLoader set()\n"


def test_failuremap_is_found_where_it_is_not_installed(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    script = write_script(tmp_path, "import torch, sys; print(sys.path[-1])")
    environment = {
        "PYTHONPATH": f"{BOOTSTRAP}{os.pathsep}{tmp_path}",
        "FAILUREMAP_TRACE_DIR": str(tmp_path),
        "PATH": os.environ["PATH"],
    }

    result = subprocess.run(
        [sys.executable, "-S", "-c", f"import sitecustomize; exec(open({str(script)!r}).read())"],
        env=environment,
        capture_output=True,
        text=True,
    )

    assert result.stdout == f"{BOOTSTRAP.parents[3]}\n"


def test_the_users_sitecustomize_runs_and_is_the_one_that_is_imported(world, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sitecustomize.py").write_text("print('mine'); setting = 5")

    result = world.run("import torch, sitecustomize; print(sitecustomize.setting)", path=str(tmp_path / "mine"))

    assert (result.stdout, world.calls) == ("mine\n5\n", ["install ready=True"])


def test_a_users_sitecustomize_that_fails_fails_as_it_would_and_is_still_audited(world, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sitecustomize.py").write_text("raise ValueError('my setting')")

    result = world.run("import torch", path=str(tmp_path / "mine"))

    assert "Error in sitecustomize" in result.stderr and "ValueError: my setting" in result.stderr
    assert (result.returncode, world.calls) == (0, ["install ready=True"])


def test_sys_path_is_what_it_would_be(world):
    source = "import sys; print(sys.path)"

    audited = world.run(source).stdout

    plain = subprocess.run(
        [sys.executable, str(world.folder / "train.py")],
        env={**os.environ, "PYTHONPATH": str(world.folder / "lib")},
        capture_output=True,
        text=True,
    ).stdout
    assert audited == plain


def test_modules_run_with_m_are_captured(world):
    write_script(world.folder, "import torch", "job.py")

    world.run("", "-m", "job")

    assert world.calls == ["install ready=True"]


CHILDREN = {
    "subprocess": "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import torch'], check=True)",
    "spawn": """
        import multiprocessing
        def work(): import torch
        if __name__ == "__main__":
            child = multiprocessing.get_context("spawn").Process(target=work)
            child.start(); child.join()
    """,
    "another folder": """
        import os, subprocess, sys
        os.chdir("/")
        subprocess.run([sys.executable, '-c', 'import torch'], check=True)
    """,
}


@pytest.mark.parametrize("how", CHILDREN)
def test_child_processes_are_captured(world, how):
    world.run(CHILDREN[how])

    assert world.calls == ["install ready=True"]


def test_a_script_that_changes_directory_is_captured(world):
    world.run("import os; os.chdir('/'); import torch")

    assert world.calls == ["install ready=True"]


def test_the_users_python_path_stays_behind_ours(monkeypatch, tmp_path):
    job = Job((sys.executable,), None, None, tmp_path, "run0")

    monkeypatch.setenv("PYTHONPATH", "src")
    kept = job.environments("m")[0]["PYTHONPATH"]
    monkeypatch.setenv("PYTHONPATH", "")
    alone = job.environments("m")[0]["PYTHONPATH"]

    assert (kept, alone) == (f"{BOOTSTRAP}{os.pathsep}src", str(BOOTSTRAP))


def test_importing_torch_for_real_is_captured_once(tmp_path, require_module):
    require_module("torch")
    world = World(tmp_path)
    for file in (tmp_path / "lib/torch/nn.py", tmp_path / "lib/torch/__init__.py"):
        file.unlink()
    (tmp_path / "lib/torch").rmdir()

    result = world.run("import torch, torch.nn; print(torch.ones(2).sum().item())")

    assert (result.stdout, result.stderr, world.calls) == ("2.0\n", "", ["install ready=True"])
