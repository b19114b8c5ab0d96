"""The examples of a deployment, and the page on operating, name settings and commands that there are."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from failuremap.cli import main
from failuremap.cli.serve import serve_command

ROOT = Path(__file__).parents[3]
FILES = [*sorted((ROOT / "examples" / "deploy").iterdir()), ROOT / "docs" / "operating.md"]
VARIABLES = {str(parameter.envvar) for parameter in serve_command.params if parameter.envvar}


def unknown_words(text: str) -> set[str]:
    """Return the variables and commands of failuremap in a text that there are not."""
    variables = set(re.findall(r"\bFAILUREMAP_[A-Z_]+", text)) - VARIABLES
    commands = set(re.findall(r"failuremap (serve|[a-z]+)(?= |`|$|\")", text, re.MULTILINE)) - set(main.commands)
    return variables | commands


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_setting_that_is_named_is_one(path):
    assert unknown_words(path.read_text(encoding="utf-8")) <= {"and", "into"}


def test_a_setting_that_is_none_is_found():
    assert unknown_words("FAILUREMAP_NONSENSE=1 failuremap nonsense `failuremap serve`") == {
        "FAILUREMAP_NONSENSE", "nonsense"
    }  # fmt: skip


def test_every_setting_has_a_variable_that_its_help_names():
    named = [parameter for parameter in serve_command.params if parameter.name != "only"]

    assert all(f"[{parameter.envvar}]" in parameter.help for parameter in named)


def test_the_unit_is_a_unit():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ROOT / "examples" / "deploy" / "failuremap.service")

    assert unit["Service"]["ExecStart"].endswith("failuremap serve")
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_a_site_has_more_time_to_stop_than_it_takes():
    from failuremap.site.app import operation

    unit = (ROOT / "examples" / "deploy" / "failuremap.service").read_text(encoding="utf-8")

    assert int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]) > 2 * operation._STOP_S
