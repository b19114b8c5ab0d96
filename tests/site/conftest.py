"""One build of the open site for all tests of a run, and its scripts run by Node."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failuremap.catalogue import mechanisms
from failuremap.catalogue.exchange.cases import released_cases
from failuremap.site import build
from failuremap.site.content import Content, content_of
from failuremap.site.frame import ASSETS

NODE_MODULES = Path(__file__).parent / "node_modules"


@pytest.fixture(scope="session")
def npm(require_folder: Callable[..., Path]) -> Callable[[str], Path]:
    """Where an npm package is: `npm("axe-core")`."""
    return lambda name: require_folder(NODE_MODULES / name, "install it: bash tests/site/install.sh")


@pytest.fixture(scope="session")
def content() -> Content:
    """What the open site shows, of most mechanisms their first case alone."""
    whole = {"replica-means-ignore-counts", "partials-averaged"}
    names = [slug if slug in whole else f"FM-{one.number:03d}-1" for slug, one in mechanisms().items() if one.stages]
    return content_of(released_cases(names), "open")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The open site, built once for all processes of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "built-site"
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            build(folder)
    return folder


@pytest.fixture(scope="session")
def node(require: Callable[..., str]) -> Callable[..., Any]:
    """What code gives with a script of the pages: `node("match.js", "return page.recognise(...given)", given)`."""
    program = require("node", "nodejs")

    def run(script: str, body: str, given: Any) -> Any:
        code = (
            f"const page = require({json.dumps(str(ASSETS / script))});"
            "const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
            f"Promise.resolve((() => {{ {body} }})()).then((made) => process.stdout.write(JSON.stringify(made)));"
        )
        done = subprocess.run(
            [program, "-e", code], input=json.dumps(given), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
