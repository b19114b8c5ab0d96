"""Scripts of stages run in the page, in real Python, and give what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browsing import served
from failuremap.catalogue import mechanisms
from failuremap.errors import InvalidArgument
from failuremap.site import build
from failuremap.site.pages.python import NEEDED

pytestmark = pytest.mark.slow

CASES = [("replica-means-ignore-counts", 1), ("partials-averaged", 3), ("count-overflows", 5)]
AS_RECORDED = "✓ As recorded: script, stdout and exit code are the same to the byte. Python 3."
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, npm) -> Path:
    folder = tmp_path_factory.mktemp("with-python") / "site"
    build(folder, pyodide=npm("pyodide"))
    return folder


@pytest.fixture(scope="module")
def python_address(folder: Path) -> Iterator[str]:
    with served(folder) as start:
        yield start


def test_scripts_give_in_the_page_what_is_recorded(page: Page, python_address):
    for slug, variant in CASES:
        page.goto(f"{python_address}mechanism/{slug}/index.html#case-{variant}")
        for stage in ("broken", "attempt"):
            button = page.locator(f'button[data-run="{stage}"][data-variant="{variant}"]')
            button.click()
            result = button.locator("xpath=following-sibling::output")

            expect(result).to_contain_text(AS_RECORDED, timeout=PATIENCE_MS)
            printed = button.locator("xpath=following-sibling::pre").text_content()
            assert printed.startswith('{"observations": [{"check": "')


def test_negative_control_a_script_that_is_changed_is_not_as_recorded(page: Page, python_address):
    page.goto(f"{python_address}case/FM-001-1/index.html")
    button = page.locator('button[data-run="broken"]')
    page.evaluate("document.querySelector('#source-broken code').prepend('print(0)\\n')")
    button.click()

    expected = "✗ Not as recorded: script, stdout."
    expect(button.locator("xpath=following-sibling::output")).to_contain_text(expected, timeout=PATIENCE_MS)


def test_a_page_from_a_disk_says_why_it_runs_nothing(page: Page, folder):
    page.goto(f"{folder.as_uri()}/case/FM-001-1/index.html")
    button = page.locator('button[data-run="broken"]')

    expect(button).to_be_disabled()
    expect(button.locator("xpath=following-sibling::output")).to_have_text(
        "A page from a disk may not start Python: serve the folder (python -m http.server) and open it there."
    )


def test_a_build_without_python_has_no_button(site):
    texts = [(site / f"mechanism/{slug}/index.html") for slug in mechanisms()]

    assert [path for path in texts if path.exists() and "data-run" in path.read_text()] == []


def test_a_folder_without_pyodide_is_refused(tmp_path):
    with pytest.raises(InvalidArgument) as refused:
        build(tmp_path / "site", pyodide=tmp_path)

    assert str(refused.value) == (
        f"pyodide={str(tmp_path)!r}: {NEEDED[0]} can't be read (No such file or directory); expected the folder of the "
        "npm package: npm install pyodide, then node_modules/pyodide."
    )
    assert not (tmp_path / "site").exists()
