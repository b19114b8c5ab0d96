"""The job server of a test session: one process that has imported torch, for every worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from audit.harness import JobServer


@pytest.fixture(scope="session")
def job_server() -> Iterator[JobServer]:
    """Starts when the first test asks for it."""
    with JobServer() as server:
        yield server
