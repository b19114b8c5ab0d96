"""One Chromium for all tests of a process, and the built site at an address and on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from browsing import FLAGS, served


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """What drives the browser."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def chromium(playwright: Playwright, require: Callable[..., str]) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    program = require("chromium", "chromium-browser", "google-chrome")
    browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """An empty page; an error in one of its scripts fails the test."""
    context = chromium.new_context()
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    yield opened
    context.close()
    assert errors == []


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The address of the open site, served."""
    with served(site) as start:
        yield start


@pytest.fixture(scope="session")
def disk(site: Path) -> str:
    """The address of the open site on the disk."""
    return f"{site.as_uri()}/"
