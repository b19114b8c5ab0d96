"""The command line as a user meets it: real processes, their exit codes and what they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import click
import pytest

from audit.launch_helpers import clean_environment, wait_for
from cli.user import PYTHON, User
from failuremap.audit.command_line import run_command
from failuremap.cli import main


@pytest.fixture
def user(tmp_path):
    return User(tmp_path)


def test_a_script_that_trains_nothing_is_not_right(user):
    user.script("print('hello')")

    code, out, _ = user.run("audit", "--", PYTHON, "train.py")

    assert (code, out.splitlines()[0]) == (3, "hello")
    assert "not measured" in out


def test_a_failed_script_is_shown_as_it_was_and_then_said_to_have_failed(user):
    user.script("print('epoch 0')\nraise RuntimeError('lost')")

    code, out, err = user.run("audit", "--", PYTHON, "train.py")

    assert code == 4
    assert out.startswith("epoch 0\n") and "The script exited with code 1." in out
    assert "started once; where it needs RANK and WORLD_SIZE, --nproc 2 starts two ranks of it" in " ".join(out.split())
    assert err.startswith("Traceback") and err.endswith("RuntimeError: lost\n")


def test_a_rank_that_fails_is_named(user):
    user.script("import os, sys; sys.exit(7 * (os.environ['RANK'] == '1'))")

    code, out, _ = user.run("audit", "--nproc", "2", "--", PYTHON, "train.py")

    assert code == 4 and "Rank 1 exited with code 7." in out and "started once" not in out


def test_a_script_that_hangs_is_stopped(user):
    user.script("import time; time.sleep(60)")

    code, out, _ = user.run("audit", "--timeout", "0.5", "--", PYTHON, "train.py")

    assert code == 4
    assert "The script was still running after 0.5 s (--timeout 0.5) and was stopped" in " ".join(out.split())


def test_an_interrupted_audit_says_so_and_leaves_nothing(user):
    user.script("import os, time; open('started', 'w').write('yes'); time.sleep(60)")

    process = user.start("audit", "--", PYTHON, "train.py")
    wait_for(user.folder / "started")
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=30)[0]

    assert process.returncode == 4 and "The script was interrupted after" in out
    assert list(user.temporary.iterdir()) == []


def test_options_after_the_script_are_the_scripts(user):
    user.script("import sys; print(sys.argv[1:])")

    _, out, _ = user.run("audit", "--", PYTHON, "train.py", "--nproc", "0", "--", "--json", "x")

    assert out.splitlines()[0] == "['--nproc', '0', '--', '--json', 'x']"


def test_json_on_stdout_is_alone_there(user):
    user.script("print('loss 1.0')")

    code, out, err = user.run("audit", "--json", "-", "--promise", "sum", "--", PYTHON, "train.py")

    verdict = json.loads(out)
    assert (code, verdict["outcome"], verdict["promise"]) == (3, "not measured", "sum")
    assert verdict["script"] == f"{PYTHON} train.py"
    assert err.startswith("loss 1.0\n") and "not measured" in err


@pytest.mark.slow
def test_a_reader_that_stops_early_changes_neither_the_verdict_nor_the_files(user):
    user.script("pass")
    user.run("audit", "--trace", "kept", "--", PYTHON, "train.py")

    reader, out = os.pipe()
    os.close(reader)
    process = user.start("diagnose", "--json", "v.json", "kept", stdout=out)
    os.close(out)
    err = process.communicate(timeout=30)[1]

    assert (process.returncode, err) == (3, "")
    assert json.loads((user.folder / "v.json").read_text())["outcome"] == "not measured"


def test_output_that_does_not_fit_is_said_in_a_line_and_is_no_verdict(user):
    with open("/dev/full", "wb") as full:
        process = user.start("list", stdout=full)
        err = process.communicate(timeout=30)[1]

    assert process.returncode == 70
    assert err.startswith("error: what was to be written does not fit: [Errno 28] No space left on device. Make room")


def test_reports_are_written_to_files(user):
    user.script("import sys; sys.exit(5)")

    user.run("audit", "--json", "v.json", "--html", "v.html", "--", PYTHON, "train.py")

    verdict = json.loads((user.folder / "v.json").read_text())
    assert (verdict["outcome"], verdict["script_exit_code"]) == ("script failed", 5)
    assert (user.folder / "v.html").read_text().startswith("<!doctype html>")


def test_the_temporary_trace_is_removed(user):
    user.script("import os; print(os.listdir(os.environ['FAILUREMAP_TRACE_DIR']))")

    _, out, _ = user.run("audit", "--", PYTHON, "train.py")

    assert ".claim" in out.splitlines()[0]
    assert list(user.temporary.iterdir()) == []


@pytest.mark.slow
def test_a_kept_trace_is_diagnosed_again_and_never_overwritten(user):
    user.script("pass")
    user.run("audit", "--trace", "kept", "--", PYTHON, "train.py")

    diagnosed, again = user.run("diagnose", "kept"), user.run("audit", "--trace", "kept", "--", PYTHON, "train.py")

    assert diagnosed[0] == 3 and "not measured" in diagnosed[1] and "other runs" not in diagnosed[1]
    assert again[0] == 2 and again[2].startswith(f"error: --trace='{user.folder}/kept' holds another run's trace")


def test_a_folder_of_runs_says_where_they_lie(user):
    (user.folder / "runs" / "1").mkdir(parents=True)
    (user.folder / "runs" / "1" / "rank00000-7.trace").touch()

    code, out, _ = user.run("diagnose", "runs")

    assert code == 3 and "other runs lie in runs/1: diagnose each by its own folder" in out


BAD = {
    "no command": (["audit", "--"], "no command to audit: name the script after --"),
    "no such script": (["audit", "--", "nope.py"], "script='nope.py' doesn't exist (looked in"),
    "a folder": (["audit", "--", "tmp"], "script='tmp' is a folder"),
    "no such program": (["audit", "--", "nope"], "command='nope' doesn't exist"),
    "no ranks": (["audit", "--nproc", "0", "--", PYTHON], "--nproc=0: 1 rank or more"),
    "less than no ranks": (["audit", "--nproc", "-1", "--", PYTHON], "--nproc=-1: 1 rank or more"),
    "ranks in words": (["audit", "--nproc", "two", "--", PYTHON], "Invalid value for '--nproc': 'two' is not a valid"),
    "no time": (["audit", "--timeout", "0", "--", PYTHON], "--timeout=0: seconds, above 0"),
    "no steps": (["audit", "--steps", "0", "--", PYTHON], "--steps=0: 1 optimizer step or more"),
    "an unknown unit": (["audit", "--unit", "word", "--", PYTHON], "Invalid value for '--unit': 'word' is not one of"),
    "JSON nowhere": (["audit", "--json", "no/v.json", "--", PYTHON], "path='no/v.json': there is no folder 'no'"),
    "HTML in a folder's place": (["audit", "--html", "tmp", "--", PYTHON], "path='tmp' is a folder"),
    "a trace below a file": (["audit", "--trace", "train.py/x", "--", PYTHON], "can't be written: Not a directory."),
    "-m unprotected": (
        ["audit", "-m", "pkg.train"],
        "No such option '-m'. Options of the script go behind it, and one that starts the command behind --.",
    ),
    "no trace": (["diagnose", "nope"], "Invalid value for 'TRACE_DIR': Directory 'nope' does not exist."),
    "no such command": (["adit"], "No such command 'adit'"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_usage_is_one_line_and_leaves_nothing(user, what):
    user.script("print('ran')")
    words, message = BAD[what]

    code, out, err = user.run(*words)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ") and message in err
    assert sorted(os.listdir(user.folder)) == ["tmp", "train.py"]
    assert os.listdir(user.temporary) == []


@pytest.mark.parametrize("group", ["member", "site"])
def test_a_group_of_commands_without_one_lists_them(user, group):
    code, out, err = user.run(group)

    assert (code, out) == (2, "") and err.startswith("Usage: ") and f" {group} [OPTIONS] COMMAND [ARGS]..." in err


def test_inside_a_launcher_the_other_way_in_is_named(user):
    user.script("pass")

    code, _, err = user.run("audit", "--", PYTHON, "train.py", RANK="1", LOCAL_RANK="1", WORLD_SIZE="2")

    assert code == 2
    assert err == (
        "error: LOCAL_RANK='1' with WORLD_SIZE='2': a launcher is at work already. "
        "Let it start the audit:  torchrun ... -m failuremap.audit train.py\n"
    )


def test_a_fault_of_our_own_is_no_verdict(capsys):
    @click.command()
    def broken():
        raise ZeroDivisionError("a bug of ours")

    code = run_command(broken, [])

    assert code == 70 and "ZeroDivisionError: a bug of ours" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["audit", "diagnose", "list", "show", "run", "verify"])
def test_the_help_of_a_command_teaches_by_examples(user, name):
    code, out, _ = user.run(name, "--help")

    assert (code == 0 and f"Examples:\n    failuremap {name}" in out) or name == "diagnose"
    assert f"failuremap {name}" in out


def test_the_help_of_an_audit_says_what_its_exit_codes_mean(user):
    _, out, _ = user.run("audit", "--help")

    assert "0 right · 1 wrong · 2 usage · 3 cannot tell or not measured · 4 the script failed" in out


def test_the_commands_are_these():
    catalogue = {"list", "show", "run", "verify"}

    assert {"audit", "diagnose"} | catalogue <= set(main.commands)


def test_the_version_is_told(user):
    from failuremap import __version__

    assert user.run("--version") == (0, f"failuremap, version {__version__}\n", "")


def test_no_command_at_all_shows_the_help_and_is_not_right(user):
    code, out, err = user.run()

    assert (code, out) == (2, "")
    assert err.startswith("Usage: ") and "audit" in err and "error" not in err


def test_the_command_line_imports_no_framework():
    source = "import sys, failuremap.cli; print('torch' in sys.modules)"

    result = subprocess.run([PYTHON, "-c", source], env=clean_environment(), capture_output=True, text=True)

    assert result.stdout == "False\n"
