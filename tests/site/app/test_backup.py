"""A backup is whole while the site is running; what is no backup is refused; an old schema is taken to the new one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from failuremap.cli import main
from failuremap.errors import InvalidArgument
from failuremap.site.app import members
from failuremap.site.app.backup import copy_database, restore
from failuremap.site.app.database import APPLICATION_ID, connect, opened, transaction
from failuremap.site.app.locking import sole_user
from failuremap.site.app.migrate import check_schema, migrate
from failuremap.site.app.schema import steps

NOW = 1_800_000_000


def names(database):
    """Return the members of a database."""
    with opened(database) as db:
        return [member.name for member in members.everybody(db)]


def add(database, name):
    """Add a member to a database."""
    with opened(database) as db, transaction(db):
        members.take_in(db, name, None, NOW)


def test_a_backup_holds_what_was_written_also_while_others_read_and_write(database, tmp_path):
    add(database, "Ada")
    writing = connect(database)
    writing.execute("BEGIN IMMEDIATE")
    members.take_in(writing, "Not yet", None, NOW)

    copy_database(database, tmp_path / "backup")

    writing.execute("ROLLBACK")
    writing.close()
    assert names(tmp_path / "backup") == ["Ada"]
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0


def test_a_restored_database_is_that_of_the_backup(database, tmp_path):
    add(database, "Ada")
    copy_database(database, tmp_path / "backup")
    add(database, "Later")

    restore(tmp_path / "backup", database)

    assert names(database) == ["Ada"]


def test_no_journal_of_the_old_database_is_played_into_the_new_one(database, tmp_path):
    copy_database(database, tmp_path / "backup")
    left_open = connect(database)
    for n in range(50):
        add(database, f"Later {n}")
    journal = database.with_name(f"{database.name}-wal").read_bytes()
    left_open.close()
    database.with_name(f"{database.name}-wal").write_bytes(journal)

    restore(tmp_path / "backup", database)

    assert names(database) == []
    assert not database.with_name(f"{database.name}-wal").exists() or names(database) == []


def wrong_files(folder):
    """Yield files that are no backup, and what is said of each."""
    folder.joinpath("text").write_text("not a database, but long enough to look like one" * 100)
    folder.joinpath("empty").write_bytes(b"")
    with closing(sqlite3.connect(folder / "other")) as db:
        db.execute("CREATE TABLE t (x)")
    migrate(folder / "whole")
    with opened(folder / "whole") as db, transaction(db):
        for n in range(500):
            members.take_in(db, f"Member {n}", None, NOW)
    copy_database(folder / "whole", folder / "damaged")
    content = bytearray((folder / "damaged").read_bytes())
    content[8192:40960] = b"\xff" * (40960 - 8192)
    folder.joinpath("damaged").write_bytes(content)
    folder.joinpath("short").write_bytes((folder / "whole").read_bytes()[:6000])


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("text", "is no database: file is not a database; nothing was restored."),
        ("empty", "is no backup of failuremap; nothing was restored."),
        ("other", "is no backup of failuremap; nothing was restored."),
        ("absent", "there is no such file; nothing was restored."),
        ("damaged", "nothing was restored."),
        ("short", "nothing was restored."),
    ],
)
def test_a_file_that_is_no_backup_changes_nothing(database, tmp_path, name, complaint):
    add(database, "Ada")
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    wrong_files(wrong)

    with pytest.raises(InvalidArgument, match=complaint.replace(".", r"\.")):
        restore(wrong / name, database)

    assert names(database) == ["Ada"]


def test_a_database_that_is_served_is_not_replaced(database, tmp_path):
    copy_database(database, tmp_path / "backup")

    with sole_user(database), pytest.raises(InvalidArgument, match="is being served by another process; stop that one"):
        restore(tmp_path / "backup", database)


def test_a_backup_of_nothing_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="there is no such file; nothing was copied"):
        copy_database(tmp_path / "absent", tmp_path / "backup")


def test_the_steps_of_the_schema_are_numbered_without_a_gap():
    assert sorted(steps()) == list(range(1, len(steps()) + 1))


def test_a_database_is_taken_to_the_next_schema_and_a_copy_is_kept(database, monkeypatch):
    add(database, "Ada")
    next_one = max(steps()) + 1
    with_one_more = {**steps(), next_one: "CREATE TABLE more (x TEXT) STRICT; INSERT INTO more VALUES ('a;b');"}
    monkeypatch.setattr("failuremap.site.app.schema.steps", lambda: with_one_more)

    copy = migrate(database)

    assert names(copy) == names(database) == ["Ada"]
    with opened(database) as db:
        assert db.execute("SELECT x FROM more").fetchone()[0] == "a;b"
        assert db.execute("PRAGMA user_version").fetchone()[0] == next_one
    with opened(copy) as db, pytest.raises(sqlite3.Error):
        db.execute("SELECT x FROM more")
    assert migrate(database) is None


def test_a_step_that_fails_leaves_the_database_as_it_was(database, monkeypatch):
    next_one = max(steps()) + 1
    broken = {**steps(), next_one: "CREATE TABLE more (x TEXT) STRICT; SELECT nonsense FROM nowhere;"}
    monkeypatch.setattr("failuremap.site.app.schema.steps", lambda: broken)

    with pytest.raises(sqlite3.Error):
        migrate(database)

    with opened(database) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == next_one - 1
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'more'").fetchone()[0] == 0


def test_a_database_of_a_later_version_is_refused(database):
    with opened(database) as db:
        db.execute("PRAGMA user_version = 99")

    for use in (migrate, check_schema):
        with pytest.raises(InvalidArgument, match="schema version 99, and this failuremap knows 1; use"):
            use(database)


def test_an_older_schema_is_named_by_the_commands_that_do_not_change_it(database):
    with opened(database) as db:
        db.execute("PRAGMA user_version = 0")

    with pytest.raises(InvalidArgument, match=r"has schema version 0, .* `failuremap serve` takes it there"):
        check_schema(database)


def test_a_database_of_another_program_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other")) as db:
        db.execute("CREATE TABLE t (x)")

    with pytest.raises(InvalidArgument, match="is a database of another program; name another file"):
        migrate(tmp_path / "other")


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "text").write_text("x" * 5000)

    with pytest.raises(InvalidArgument, match="can't be opened: file is not a database"):
        migrate(tmp_path / "text")


def test_a_database_is_marked_and_read_by_its_owner_alone(database):
    with opened(database) as db:
        assert db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    assert database.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["site.sqlite3", "link.sqlite3"])
def test_a_database_is_not_copied_onto_itself(database, name):
    (database.parent / "link.sqlite3").symlink_to(database)
    before = database.stat().st_ino

    with pytest.raises(InvalidArgument, match=r"is the database itself; name another file\. Nothing was copied"):
        copy_database(database, database.parent / name)

    assert database.stat().st_ino == before


def test_a_database_is_one_by_whichever_link_it_is_named(database):
    link = database.parent / "link.sqlite3"
    link.symlink_to(database)

    with sole_user(database), pytest.raises(InvalidArgument, match="is being served by another"), sole_user(link):
        pass


@pytest.mark.parametrize(
    ("version", "complaint"), [(99, "has schema version 99, and this failuremap knows"), (0, "is no backup of")]
)
def test_a_backup_that_this_version_cannot_serve_is_not_put_back(database, tmp_path, version, complaint):
    backup = tmp_path / "backup"
    copy_database(database, backup)
    with closing(sqlite3.connect(backup)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    kept = database.read_bytes()

    with pytest.raises(InvalidArgument, match=complaint):
        restore(backup, database)

    assert database.read_bytes() == kept


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("/proc/site.sqlite3", "its folder can't be written"), (".", "is a folder; name a file in it")],
)
def test_a_place_for_no_database_is_named(path, complaint):
    with pytest.raises(InvalidArgument, match=complaint), sole_user(Path(path)):
        pass


def test_a_command_on_a_damaged_database_says_so(database):
    with opened(database) as db:
        page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'members'").fetchone()[0]
    with open(database, "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)

    done = CliRunner().invoke(main, ["member", "list", "--database", str(database)])

    assert "can't be used: database disk image is malformed; expected a whole file" in str(done.exception)
    assert isinstance(done.exception, InvalidArgument)
