"""The example of a workflow is one that GitHub would take, and its commands exist."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest
import yaml

from failuremap.cli import main as command_line

WORKFLOW = Path(__file__).parents[1] / "examples" / "ci" / "audit.yml"


def steps_of(workflow):
    """The steps of all jobs."""
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def problems(text):
    """What GitHub, or the command line of failuremap, would refuse."""
    workflow = yaml.safe_load(text)
    found = [f"no {key}" for key in ("jobs", True) if key not in workflow]  # YAML reads the key `on` as true
    for step in steps_of(workflow):
        if ("uses" in step) == ("run" in step):
            found.append(f"a step is one of uses and run: {step}")
        words = shlex.split(step.get("run", ""))
        if words[:1] == ["failuremap"]:
            found += refused(words[1:])
    return found


def refused(words):
    """Options that a subcommand has not."""
    command = command_line.get_command(click.Context(command_line), words[0])
    assert command is not None, words
    known = {option for parameter in command.params for option in parameter.opts}
    ours = words[: words.index("--")] if "--" in words else words
    return [f"no option {word}" for word in ours if word.startswith("-") and word not in known]


def test_the_workflow_is_well_formed_and_its_commands_exist():
    assert problems(WORKFLOW.read_text(encoding="utf-8")) == []


def test_it_audits_and_uploads_what_the_audit_writes():
    steps = steps_of(yaml.safe_load(WORKFLOW.read_text(encoding="utf-8")))

    (audit,) = [shlex.split(step["run"]) for step in steps if "failuremap audit" in step.get("run", "")]
    uploaded = [step["with"].get("sarif_file", "") for step in steps if "with" in step]
    assert audit[audit.index("--sarif") + 1] in uploaded


@pytest.mark.parametrize(
    ("planted", "problem"),
    [("--junit", "no option --jnuit"), ("    steps:", None)],
)
def test_a_broken_workflow_is_seen(planted, problem):
    text = WORKFLOW.read_text(encoding="utf-8")
    if problem is None:
        with pytest.raises(KeyError):
            problems(text.replace(planted, "    stepz:"))
    else:
        assert problems(text.replace(planted, "--jnuit")) == [problem]
