"""A job is run as it is, ends as it ends, and leaves nothing behind; every process is real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from audit.launch_helpers import clean_environment, is_alive, make_job, wait_for, wait_until_gone, write_script
from failuremap.audit.launch import Job, run, supervise
from failuremap.errors import InvalidArgument

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")


@pytest.fixture(autouse=True)
def impatience(monkeypatch):
    """Shorten the grace periods; the messages and the order of events stay."""
    monkeypatch.setattr(supervise, "FAILURE_SECONDS", 0.5)
    monkeypatch.setattr(supervise, "KILL_SECONDS", 0.5)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_a_script_that_ends_well_has_not_failed(tmp_path):
    ending = run(make_job(tmp_path, "pass"))

    assert (ending.exit_codes, ending.failed, ending.sentence) == ((0,), False, "the script exited with code 0")


def test_a_script_that_fails_keeps_its_code_and_its_own_traceback(tmp_path, capfd):
    ending = run(make_job(tmp_path, "def train():\n    raise RuntimeError('lost')\ntrain()"))

    printed = capfd.readouterr().err
    assert ending.sentence == "the script exited with code 1"
    assert printed == textwrap.dedent(f"""\
        Traceback (most recent call last):
          File "{tmp_path}/train.py", line 3, in <module>
            train()
          File "{tmp_path}/train.py", line 2, in train
            raise RuntimeError('lost')
        RuntimeError: lost
        """)


@pytest.mark.parametrize("how", ["os._exit(7)", "sys.exit(7)"])
def test_an_early_exit_is_the_scripts_code(tmp_path, how):
    ending = run(make_job(tmp_path, f"import os, sys\n{how}\nraise SystemError"))

    assert ending.exit_codes == (7,)


def test_ranks_find_each_other_in_their_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    source = f"""
        import os
        names = ["WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "OMP_NUM_THREADS", "MASTER_PORT"]
        open(rf"{tmp_path}/" + os.environ["RANK"], "w").write(" ".join(os.environ[name] for name in names))
    """

    run(make_job(tmp_path, source, nproc=2))

    first, second = ((tmp_path / rank).read_text().split() for rank in "01")
    assert first[:5] == ["2", "2", "0", "127.0.0.1", "1"]
    assert second[:5] == ["2", "2", "1", "127.0.0.1", "1"]
    assert first[5] == second[5]


def test_without_nproc_no_rank_is_invented(tmp_path):
    source = "import os, sys; sys.exit(sum(name in os.environ for name in ('RANK', 'WORLD_SIZE', 'MASTER_PORT')))"

    assert run(make_job(tmp_path, source)).exit_codes == (0,)


def test_omp_threads_that_are_set_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")

    assert run(make_job(tmp_path, "import os, sys; sys.exit(int(os.environ['OMP_NUM_THREADS']))", 2)).exit_codes == (
        3,
        3,
    )


def test_megabytes_flow_on_both_streams(tmp_path, capfd):
    source = "import sys\nfor _ in range(3000):\n    print('o' * 999)\n    print('e' * 999, file=sys.stderr)"

    run(make_job(tmp_path, source))

    printed = capfd.readouterr()
    assert (len(printed.out), len(printed.err)) == (3_000_000, 3_000_000)


def test_output_can_go_to_stderr_as_a_whole(tmp_path, capfd):
    job = make_job(tmp_path, "print('loss 1.0')")

    run(Job(job.argv, None, None, job.trace_dir, "run0", output_to_stderr=True))

    assert capfd.readouterr() == ("", "loss 1.0\n")


def test_a_failing_rank_is_named_and_the_hanging_one_is_stopped(tmp_path):
    source = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(60)"

    ending = run(make_job(tmp_path, source, nproc=2))

    assert (ending.exit_codes, ending.sentence) == ((-signal.SIGTERM, 3), "rank 1 exited with code 3")
    assert 0.5 <= ending.seconds < 30


def test_the_other_ranks_have_time_for_their_own_traceback(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(supervise, "FAILURE_SECONDS", 20.0)
    source = """
        import os, sys, time
        if os.environ["RANK"] == "1": sys.exit(3)
        time.sleep(0.2)
        raise ConnectionError("rank 1 is gone")
    """

    ending = run(make_job(tmp_path, source, nproc=2))

    assert (ending.exit_codes, ending.first_failed) == ((1, 3), 1)
    assert "ConnectionError: rank 1 is gone" in capfd.readouterr().err


def test_a_rank_killed_by_a_signal_is_said_to_be(tmp_path):
    source = "import os, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), 9)\ntime.sleep(60)"

    assert run(make_job(tmp_path, source, nproc=2)).sentence == "rank 1 was killed by SIGKILL"


def test_a_rank_that_ends_early_and_well_stops_nobody(tmp_path):
    source = "import os, time\nif os.environ['RANK'] == '0': time.sleep(0.8)"

    assert run(make_job(tmp_path, source, nproc=2)).exit_codes == (0, 0)


def test_a_hanging_script_is_stopped_at_its_timeout(tmp_path):
    ending = run(make_job(tmp_path, "import time; time.sleep(60)", timeout=0.5))

    assert ending.sentence == "the script was still running after 0.5 s (--timeout 0.5) and was stopped"
    assert (ending.failed, ending.exit_codes) == (True, (-signal.SIGTERM,))


def test_a_script_that_ignores_sigterm_is_killed(tmp_path):
    source = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"

    ending = run(make_job(tmp_path, source, timeout=1.5))

    assert (ending.exit_codes, ending.timed_out) == ((-signal.SIGKILL,), True)


def test_a_script_that_ends_well_on_sigterm_has_still_timed_out(tmp_path):
    source = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntime.sleep(60)"

    ending = run(make_job(tmp_path, source, timeout=1.5))

    assert (ending.exit_codes, ending.failed) == ((0,), True)


ESCAPE = """
    import os, subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session={session})
    open({path!r}, "w").write(str(child.pid))
    os._exit({code})
"""


@linux
@pytest.mark.parametrize("code", [0, 5])
@pytest.mark.parametrize("session", [False, True], ids=["same group", "session of its own"])
def test_a_grandchild_is_not_left_behind(tmp_path, session, code):
    job = make_job(tmp_path, ESCAPE.format(session=session, code=code, path=str(tmp_path / "pid")))

    ending = run(job)

    assert ending.exit_codes == (code,)
    assert not is_alive(int((tmp_path / "pid").read_text()))


@linux
def test_a_grandchild_with_an_environment_of_its_own_is_found_in_its_session(tmp_path):
    source = ESCAPE.replace("start_new_session={session}", "env={{}}").format(path=str(tmp_path / "pid"), code=0)

    run(make_job(tmp_path, source))

    assert not is_alive(int((tmp_path / "pid").read_text()))


@linux
def test_a_process_outside_the_run_is_not_touched(tmp_path):
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        run(make_job(tmp_path, "import sys; sys.exit(1)"))

        assert is_alive(bystander.pid)
    finally:
        bystander.kill()
        bystander.wait()


@linux
def test_a_second_run_at_the_same_time_is_not_touched(tmp_path):
    longer = make_job(tmp_path, "import time; time.sleep(1.5)")
    endings = []
    thread = threading.Thread(target=lambda: endings.append(run(longer)))
    thread.start()

    run(Job((sys.executable, "-c", "pass"), None, None, tmp_path / "trace", "run0"))
    thread.join()

    assert endings[0].exit_codes == (0,)


def start_supervisor(folder: Path, source: str, *, stdin: int | None = None, nproc: str = "None") -> subprocess.Popen:
    """Start a process that runs a job of the script and prints how it ended."""
    script = write_script(folder, source)
    driver = f"""
        from pathlib import Path
        from failuremap.audit.launch import Job, run
        ending = run(Job(({sys.executable!r}, {str(script)!r}), {nproc}, None, Path({str(folder / "trace")!r}), "run0"))
        print(ending.exit_codes, ending.interrupted, ending.sentence)
    """
    command = [sys.executable, str(write_script(folder, driver, "driver.py"))]
    return subprocess.Popen(command, env=clean_environment(), stdin=stdin, stdout=subprocess.PIPE, text=True)


REPORTING = """
    import os, signal, sys, time
    def stop(number, frame):
        print("saved after", signal.Signals(number).name, flush=True)
        sys.exit(0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    open({path!r}, "w").write(str(os.getpid()))
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_and_reported(tmp_path, number):
    with start_supervisor(tmp_path, REPORTING.format(path=str(tmp_path / "pid"))) as supervisor:
        wait_for(tmp_path / "pid")
        supervisor.send_signal(number)
        printed = supervisor.communicate(timeout=20)[0]

    first, second = printed.splitlines()
    assert first == f"saved after {number.name}"
    assert second.startswith("(0,) True the script was interrupted after ")


def test_a_second_signal_kills_a_script_that_will_not_end(tmp_path):
    source = f"""
        import os, signal, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        time.sleep(60)
    """
    with start_supervisor(tmp_path, source) as supervisor:
        wait_for(tmp_path / "pid")
        supervisor.send_signal(signal.SIGINT)
        time.sleep(0.3)
        supervisor.send_signal(signal.SIGINT)
        printed = supervisor.communicate(timeout=20)[0]

    assert printed.startswith("(-9,) True")


@linux
def test_the_ranks_die_with_a_killed_supervisor(tmp_path):
    source = f"""
        import os, time
        open(rf"{tmp_path}/rank" + os.environ["RANK"], "w").write(str(os.getpid()))
        time.sleep(60)
    """
    with start_supervisor(tmp_path, source, nproc="2") as supervisor:
        pids = [int(wait_for(tmp_path / f"rank{rank}")) for rank in range(2)]
        supervisor.kill()
        supervisor.wait()

    assert wait_until_gone(pids)


def test_stdin_goes_to_rank_0_alone(tmp_path):
    source = f"""
        import os, sys
        open(rf"{tmp_path}/read" + os.environ["RANK"], "w").write(repr(sys.stdin.read()))
    """
    with start_supervisor(tmp_path, source, stdin=subprocess.PIPE, nproc="2") as supervisor:
        assert supervisor.stdin is not None
        supervisor.communicate("hello", timeout=20)

    assert [(tmp_path / f"read{rank}").read_text() for rank in range(2)] == ["'hello'", "''"]


def test_a_program_that_the_system_refuses_is_bad_usage(tmp_path):
    program = write_script(tmp_path, "no program", "launcher")
    program.chmod(0o755)
    program.write_bytes(b"\x7fELF but no program")

    with pytest.raises(InvalidArgument) as raised:
        run(Job((str(program),), None, None, tmp_path / "trace", "run0"))

    assert str(raised.value) == f"command={str(program)!r} can't be started: Exec format error."


def test_the_own_signal_handlers_come_back(tmp_path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    run(make_job(tmp_path, "pass"))

    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_the_own_environment_stays(tmp_path):
    before = dict(os.environ)

    run(make_job(tmp_path, "pass", nproc=2))

    assert dict(os.environ) == before
