"""One site for all tests of the member area, and two of its members."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Server, Visitor


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A site that runs as long as the tests."""
    site = Server(tmp_path_factory.mktemp("site"), ("--header-timeout", "1", "--body-timeout", "1"))
    site.start()
    yield site
    site.stop()


@pytest.fixture(scope="session")
def ada(server: Server) -> Visitor:
    """A member."""
    return server.member("Ada")


@pytest.fixture(scope="session")
def grace(server: Server) -> Visitor:
    """Another member."""
    return server.member("Grace")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database of this version without members."""
    from failuremap.site.app.migrate import migrate

    migrate(tmp_path / "site.sqlite3")
    return tmp_path / "site.sqlite3"
