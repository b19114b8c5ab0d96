"""A run of a script: isolated, limited, guarded; whatever the script does, it ends, and with it all that it started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from audit.launch_helpers import is_alive, wait_until_gone
from failuremap.catalogue import guard
from failuremap.catalogue.run import OUTPUT_LIMIT_BYTES, run


def test_a_run_gives_what_the_script_printed_and_its_exit_code():
    seen = run("import sys; print('é∑'); print('oh', file=sys.stderr); raise SystemExit(3)")

    assert (seen.exit_code, seen.stdout, seen.stderr, seen.stopped) == (3, "é∑\n", "oh\n", "")


def test_the_report_of_a_script_is_read():
    seen = run('print(\'{"observations": [{"check": "a", "actual": 1, "expected": 2, "passed": false}]}\')')

    assert [(one.check, one.actual, one.expected, one.passed) for one in seen.observations] == [("a", 1, 2, False)]
    assert seen.failed_checks == ["a"]


@pytest.mark.parametrize(
    "printed",
    ["", "{}", "[1]", '{"observations": [{"check": "a"}]}', "nonsense", "[" * 50_000,
     '{"observations": [{"check": "a", "actual": NaN, "expected": 2, "passed": false}]}'],
)  # fmt: skip
def test_a_script_without_a_report_observed_nothing(printed):
    assert run(f"print({printed!r})").observations == ()


def test_a_script_is_main_and_has_nothing_of_ours():
    source = """
import sys, os
print(__name__, sys.argv, sorted(name for name in globals() if not name.startswith("__")), os.listdir("."))
print(sorted(set(os.environ) - {"LC_CTYPE", "LD_LIBRARY_PATH"}), [name for name in sys.modules if "failuremap" in name])
print(repr(sys.stdin.read()), sys.path_hooks is not None, "site" in sys.modules)
"""

    assert run(source).stdout.splitlines() == [
        "__main__ ['script.py'] ['os', 'sys'] []",
        "[] []",
        "'' True False",
    ]


def test_a_run_is_isolated_from_the_packages_installed_here():
    seen = run("import numpy")

    assert seen.exit_code == 1
    assert "No module named 'numpy'" in seen.stderr


@pytest.mark.parametrize(
    ("source", "traceback"),
    [
        ("x = 1\n1 / 0", ['  File "script.py", line 2, in <module>', "ZeroDivisionError: division by zero"]),
        ("def f(:", ['  File "script.py", line 1', "    def f(:", "          ^", "SyntaxError: invalid syntax"]),
        ("x = bytearray(2 << 30)", ['  File "script.py", line 1, in <module>', "MemoryError"]),
    ],
)
def test_a_traceback_shows_the_script_alone(source, traceback):
    seen = run(source)

    assert seen.exit_code == 1
    assert [line for line in seen.stderr.splitlines() if not line.startswith("Traceback")] == traceback


REFUSED = {
    "writes to the disk: open('notes')": "open('notes', 'w')",
    "writes to the disk: open('appended')": "open('appended', 'ab')",
    "writes to the disk: open('made')": "import os; os.open('made', os.O_CREAT)",
    "writes to the disk: os.mkdir('folder')": "import os; os.mkdir('folder')",
    "writes to the disk: os.remove('x')": "import os; os.remove('x')",
    "writes to the disk: os.rename('x')": "import os; os.rename('x', 'y')",
    "writes to the disk: os.utime('x')": "import pathlib; pathlib.Path('x').touch()",
    "writes to the disk: os.mkfifo('pipe')": "import os; os.mkfifo('pipe')",
    "writes to the disk: os.mknod('node')": "import os; os.mknod('node', mode=0o600)",
    "writes to the disk: import('_posixshmem')": "import multiprocessing.shared_memory",
    "writes to the disk: import('_multiprocessing')": "import multiprocessing; multiprocessing.Lock()",
    "writes to the disk: shutil.rmtree('x')": "import shutil; shutil.rmtree('x')",
    "opens a socket: socket.__new__()": "import socket; socket.socket()",
    "opens a socket: socket.getaddrinfo('localhost')": "import socket; socket.getaddrinfo('localhost', 80)",
    "starts or signals a process: os.fork()": "import os; os.fork()",
    "starts or signals a process: os.system(b'true')": "import os; os.system('true')",
    "starts or signals a process: os.kill(1)": "import os; os.kill(1, 0)",
    "starts or signals a process: os.exec('/bin/true')": "import os; os.execv('/bin/true', ['true'])",
    "starts or signals a process: subprocess.Popen('true')": "import subprocess; subprocess.run(['true'])",
    "leaves Python: ctypes.dlopen()": "import ctypes; ctypes.CDLL(None)",
    "changes its limits: resource.setrlimit(0)": "import resource; resource.setrlimit(0, (-1, -1))",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_a_script_has_no_business_with_ends_it(reason):
    source = f"print('first', flush=True)\ntry:\n    {REFUSED[reason]}\nexcept BaseException: pass\nprint('after')"

    seen = run(source)

    assert (seen.exit_code, seen.observations, seen.stopped) == (None, (), f"the script {reason}")
    assert (seen.stdout, seen.stderr) == ("first\n", "")


def test_negative_control_reading_is_allowed_and_an_exit_code_alone_is_no_refusal():
    source = f"import os, json, random; open(json.__file__).read(); os._exit({guard.REFUSED})"

    seen = run(source)

    assert (seen.exit_code, seen.stopped) == (guard.REFUSED, "")


def test_a_script_opens_few_files():
    assert "Too many open files" in run("import os\nfor _ in range(40): os.dup(1)").stderr


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import os, time; os.close(1); os.close(2); time.sleep(60)",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
    ],
)
def test_a_script_that_does_not_end_is_stopped(source):
    seen = run(source, time_limit_s=0.5)

    assert (seen.exit_code, seen.observations, seen.stopped) == (None, (), "the script was still running after 0.5 s")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_script_that_prints_without_end_is_stopped_and_not_kept(stream):
    seen = run(f"import sys\nwhile True: sys.{stream}.write('x' * 100_000)")

    assert (seen.exit_code, seen.stopped) == (None, "the script printed more than 1048576 bytes")
    assert OUTPUT_LIMIT_BYTES < len(seen.stdout + seen.stderr) < OUTPUT_LIMIT_BYTES + 100_000


def test_what_a_script_leaves_behind_is_ended(tmp_path, monkeypatch):
    # A guard that refuses nothing stands for a script that got round it.
    open_gate = tmp_path / "guard.py"
    open_gate.write_text(Path(guard.__file__).read_text().replace("sys.addaudithook(_watch)", ""))
    monkeypatch.setattr(guard, "__file__", str(open_gate))
    source = """
import os, time
child = os.fork()
if not child:
    os.close(1), os.close(2)
    time.sleep(60)
print(child)
"""

    seen = run(source)

    assert seen.exit_code == 0
    assert wait_until_gone([int(seen.stdout)])


def test_an_interrupted_run_ends_its_script(monkeypatch):
    started = []

    def interrupt(process, _deadline):
        started.append(process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr("failuremap.catalogue.run._read", interrupt)

    with pytest.raises(KeyboardInterrupt):
        run("import time; time.sleep(60)")

    assert not is_alive(started[0])


def test_nothing_is_left_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    run("open('notes', 'w')")
    run("print(1)")

    assert list(tmp_path.iterdir()) == []


def test_another_interpreter_may_run_it():
    assert run("import sys; print(sys.executable)", python=sys.executable).stdout.strip() == sys.executable
