"""The commands of the served site say what they did, and what is wrong with what they were given."""

from __future__ import annotations

import re
import sys

import pytest

from failuremap.audit.command_line import run_command
from failuremap.cli import main


@pytest.fixture
def database(tmp_path, monkeypatch):
    """The file of members, as FAILUREMAP_DATABASE names it; nothing has made it yet."""
    path = tmp_path / "site.sqlite3"
    monkeypatch.setenv("FAILUREMAP_DATABASE", str(path))
    return path


def run(capsys, *words: str) -> tuple[int, str, str]:
    """Run a command; return exit code, stdout and stderr."""
    code = run_command(main, list(words))
    return code, *capsys.readouterr()


def test_an_invitation_is_a_link_to_the_public_address(database, capsys):
    code, out, err = run(capsys, "invite", "Ada", "--days", "2", "--public-url", "https://maps.example.org")

    assert code == 0
    assert re.fullmatch(r"https://maps\.example\.org/join/[\w-]{43}\n", out)
    assert err.splitlines() == [
        "for 'Ada', works once, within 2 days",
        f"--database {str(database)!r} is new: `failuremap serve` is to have the same one",
    ]
    assert database.stat().st_mode & 0o077 == 0


def test_the_audit_log_names_who_was_invited(database, capsys):
    run(capsys, "invite", "Ada")

    code, out, _ = run(capsys, "member", "log")

    assert code == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  invited                Ada  -\n", out)


def test_who_is_no_member_can_not_be_removed(database, capsys):
    run(capsys, "invite", "Ada")

    code, _, err = run(capsys, "member", "remove", "Ada")

    assert code == 2
    assert err == "error: name='Ada' is that of no member; `failuremap member list` shows all names.\n"


def test_a_backup_is_restored(database, tmp_path, capsys):
    run(capsys, "invite", "Ada")
    file = tmp_path / "backup"

    assert run(capsys, "backup", str(file))[:2] == (0, f"{file.stat().st_size} bytes in {file}\n")
    database.unlink()
    assert run(capsys, "restore", str(file))[:2] == (0, f"restored {database} from {file}\n")
    assert "Ada" in run(capsys, "member", "log")[1]


@pytest.mark.parametrize("words", [["member", "list"], ["member", "log"], ["member", "remove", "Ada"]])
def test_a_database_that_is_not_there_is_named(database, capsys, words):
    code, _, err = run(capsys, *words)

    assert code == 2
    assert f"--database {str(database)!r}: there is no such file; `failuremap invite NAME` makes it." in err


def test_a_folder_that_is_not_there_is_named(tmp_path, capsys):
    code, _, err = run(capsys, "invite", "Ada", "--database", str(tmp_path / "no" / "site"))

    assert code == 2
    assert "can't be opened: unable to open database file; expected a file that `failuremap serve` made" in err


def test_a_site_without_https_is_refused_before_anything_is_made(database, capsys):
    code, _, err = run(capsys, "serve", "--public-url", "http://maps.example.org")

    assert code == 2
    assert "passwords and sessions would go unencrypted" in err
    assert not database.exists()


def test_a_key_that_is_too_short_is_refused(database, tmp_path, capsys):
    (tmp_path / "key").write_bytes(b"short")

    code, _, err = run(capsys, "serve", "--key", str(tmp_path / "key"))

    assert code == 2
    assert "has 5 bytes; expected a file of at least 16 random bytes" in err


def test_without_the_web_stack_the_line_that_installs_it_is_printed(database, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "failuremap.site.app.operation", raising=False)

    code, _, err = run(capsys, "serve")

    assert code == 2
    assert err == "error: serving the site needs uvicorn. Install it with:  pip install 'failuremap[web]'\n"


def test_the_other_commands_need_no_web_stack(database, monkeypatch, capsys):
    for name in ("uvicorn", "starlette", "argon2"):
        monkeypatch.setitem(sys.modules, name, None)

    assert run(capsys, "invite", "Ada")[0] == 0
    assert run(capsys, "member", "list")[0] == 0
