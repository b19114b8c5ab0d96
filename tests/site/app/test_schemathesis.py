"""The API keeps its description: requests made from it, right and wrong ones, get only answers that it names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from served import Visitor


def tried(schemathesis: str, visitor: Visitor, folder: Path, count: int) -> tuple[int, str]:
    """Try a site with requests made from openapi.json in a folder; return the exit code and what was printed."""
    site = str(visitor.base_url).rstrip("/")
    sent = [f"Origin: {site}", "X-Forwarded-For: 10.9.9.9"]
    keys = [f'[auth.openapi.session]\napi_key = "{value}"\n' for value in visitor.cookies.values()]
    (folder / "schemathesis.toml").write_text("".join(keys))
    command = [schemathesis, "run", "openapi.json", "--url", site, "--max-examples", str(count), "--seed", "1"]
    command += ["--generation-database", "none", *(word for header in sent for word in ("-H", header))]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def described(visitor: Visitor, folder: Path) -> dict:
    """Fetch the description into openapi.json, and return it."""
    answer = visitor.get("/api/openapi.json")
    (folder / "openapi.json").write_bytes(answer.content)
    return answer.json()


@pytest.mark.slow
@pytest.mark.parametrize("who", ["stranger", "member"])
def test_requests_made_from_the_description_get_answers_that_it_names(require, server, tmp_path, who):
    visitor = server.visitor() if who == "stranger" else server.member("Schema")

    described(visitor, tmp_path)

    code, said = tried(require("schemathesis"), visitor, tmp_path, 15)

    assert code == 0, said


@pytest.mark.slow
def test_a_description_that_promises_more_is_caught(require, server, ada, tmp_path):
    description = described(ada, tmp_path)
    description["paths"] = {"/api/cases": description["paths"]["/api/cases"]}
    description["components"]["schemas"]["Cases"]["required"] = ["no-such-field"]
    (tmp_path / "openapi.json").write_text(json.dumps(description))

    code, said = tried(require("schemathesis"), ada, tmp_path, 1)

    assert code == 1
    assert "Response violates schema" in said
