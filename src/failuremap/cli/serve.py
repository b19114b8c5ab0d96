"""The commands of the served site: serve, invite, member, backup, restore."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from failuremap.errors import InvalidArgument, MissingDependency

_PATH = click.Path(path_type=Path)


class _Span(click.FloatRange):
    """A number in a range; NaN, which is neither below nor above one, is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Reads it."""
        read: Any = "none" if str(value).strip().lower() == "nan" else value
        return super().convert(read, param, ctx)


_DAYS = _Span(0, 36500, min_open=True)
_SECONDS = _Span(0, 3600, min_open=True)
_WEB_STACK = ("argon2", "h11", "python_multipart", "starlette", "uvicorn")


def _setting(name: str, text: str, **more: Any) -> Callable[[Any], Any]:
    """Returns an option that may be set by a variable as well, and says by which."""
    variable = f"FAILUREMAP_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, envvar=variable, help=f"{text}  [{variable}]", show_default="default" in more, **more)


_database = _setting(
    "--database", "The file of members and candidates.", type=_PATH, default=Path("failuremap.sqlite3"), metavar="FILE"
)
_public_url = _setting("--public-url", "Where browsers find the site.", default="http://localhost:8000", metavar="URL")


@click.command("serve")
@_database
@_setting("--public-url", "Where browsers find the site. Default: http://localhost with the port.", metavar="URL")
@_setting("--host", "Address to listen at.", default="127.0.0.1")
@_setting("--port", "Port to listen at.", type=click.IntRange(0, 65535), default=8000)
@_setting("--trusted-proxy", "Believe X-Forwarded-For from this network.", multiple=True, metavar="NETWORK")
@_setting("--submissions-a-day", "A member's candidates in 24 h.", type=click.IntRange(0), default=50, metavar="K")
@_setting("--session-days", "A session ends after D days.", type=_DAYS, default=30, metavar="D")
@_setting("--idle-days", "A session without requests ends after D days.", type=_DAYS, default=7, metavar="D")
@_setting("--header-timeout", "A request's header comes within S seconds.", type=_SECONDS, default=10, metavar="S")
@_setting("--body-timeout", "A request's body comes within S seconds.", type=_SECONDS, default=20, metavar="S")
@_setting("--key", "The key of the season's held-back inputs.", type=_PATH, metavar="FILE")
@_setting("--pyodide", "A folder with pyodide: scripts run in the page.", type=_PATH, metavar="DIR")
@click.option("--only", multiple=True, metavar="SLUG", help="Show this mechanism alone; may be given more than once.")
def serve_command(host: str, port: int, pyodide: Path | None, only: tuple[str, ...], **given: Any) -> None:
    """Serve the site with its member area, until SIGTERM.

    \b
    Examples:
      failuremap serve
      failuremap serve --public-url https://maps.example.org --trusted-proxy 127.0.0.1
    """
    try:
        from failuremap.site.app.operation import Place, serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] in _WEB_STACK:
            raise MissingDependency("serving the site", str(error.name), "web") from error
        raise
    given["public_url"] = given["public_url"] or f"http://localhost:{port}"
    serve(_settings(**given), Place(host, port, given["key"], pyodide, only))


def _settings(database: Path, public_url: str, trusted_proxy: tuple[str, ...], key: Path | None, **given: Any) -> Any:
    from failuremap.catalogue.exchange.intake import read_key
    from failuremap.site.app.settings import Settings, parse_address, parse_networks

    if key:
        read_key(key)
    return Settings(
        database=database,
        address=parse_address(public_url),
        trusted_proxies=parse_networks(trusted_proxy),
        submissions_a_day=given["submissions_a_day"],
        session_s=round(given["session_days"] * 24 * 3600),
        idle_s=round(given["idle_days"] * 24 * 3600),
        header_timeout_s=given["header_timeout"],
        body_timeout_s=given["body_timeout"],
    )


@click.command("invite")
@click.argument("name")
@click.option("--days", type=_DAYS, default=7, show_default=True, metavar="D", help="It expires after D days.")
@_database
@_public_url
def invite_command(name: str, days: float, database: Path, public_url: str) -> None:
    """Print a link that lets NAME in, once.

    For somebody who is a member already it sets another password, and ends their sessions.

    \b
    Examples:
      failuremap invite 'Ada Lovelace'
      failuremap invite ada --days 1 --public-url https://maps.example.org
    """
    from failuremap.site.app import audit_log
    from failuremap.site.app.invitations import invite
    from failuremap.site.app.members import check_name
    from failuremap.site.app.settings import parse_address

    address, now = parse_address(public_url), int(time.time())
    is_new = not database.exists()
    with _members_of(database, make=True) as db:
        secret = invite(db, name, days, now)
        audit_log.write(db, "invited", check_name(name), "", now)
    click.echo(f"{address}/join/{secret}")
    click.echo(f"for {check_name(name)!r}, works once, within {days:g} days", err=True)
    if is_new:
        click.echo(f"--database {str(database)!r} is new: `failuremap serve` is to have the same one", err=True)


@click.group("member")
def member_command() -> None:
    """List or remove members, and read what happened to accounts."""


@member_command.command("list")
@_database
def list_members(database: Path) -> None:
    """List the members, one a line: the day of their joining, and their name."""
    from failuremap.site.app.members import everybody

    with _members_of(database) as db:
        for member in everybody(db):
            click.echo(f"{time.strftime('%Y-%m-%d', time.gmtime(member.joined))}  {member.name}")


@member_command.command("remove")
@click.argument("name")
@_database
def remove_member(name: str, database: Path) -> None:
    """Remove NAME with their sessions, passkeys and candidates, at once."""
    from failuremap.site.app import audit_log, members
    from failuremap.site.app.database import transaction

    with _members_of(database) as db, transaction(db):
        removed = members.remove(db, name)
        audit_log.write(db, "removed", removed.name, "", int(time.time()))
    click.echo(f"removed {removed.name!r}")


@member_command.command("log")
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, metavar="K", help="How many lines.")
@_database
def show_log(last: int, database: Path) -> None:
    """Print the audit log, the newest line first: time, event, member, address."""
    from failuremap.site.app import audit_log

    with _members_of(database) as db:
        for at, event, member, address in audit_log.last(db, last):
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
            click.echo(f"{when}  {event:<21}  {member or '-'}  {address or '-'}")


@contextmanager
def _members_of(database: Path, *, make: bool = False) -> Iterator[Any]:
    """Opens the database, with the schema of this version.

    Raises:
        InvalidArgument: It can't be opened, read or written, or is of another version.
    """
    from failuremap.site.app.database import opened
    from failuremap.site.app.migrate import check_schema, migrate

    if make and not database.exists():
        migrate(database)
    if not database.is_file():
        raise InvalidArgument(
            f"--database {str(database)!r}: there is no such file; `failuremap invite NAME` makes it."
        )
    check_schema(database)
    try:
        with opened(database) as db:
            yield db
    except sqlite3.Error as error:
        raise InvalidArgument(
            f"--database {str(database)!r} can't be used: {error}; expected a whole file that may be written. "
            "`failuremap restore FILE` puts a backup in its place."
        ) from error


@click.command("backup")
@click.argument("file", type=_PATH)
@_database
def backup_command(file: Path, database: Path) -> None:
    """Write a whole copy of the database to FILE, also while the site is running."""
    from failuremap.site.app.backup import copy_database

    copy_database(database, file)
    click.echo(f"{file.stat().st_size} bytes in {file}")


@click.command("restore")
@click.argument("file", type=_PATH)
@_database
def restore_command(file: Path, database: Path) -> None:
    """Put the backup FILE in the place of the database; the site must not be running."""
    from failuremap.site.app.backup import restore

    restore(file, database)
    click.echo(f"restored {database} from {file}")
