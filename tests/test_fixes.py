"""What docs/fix.md shows is so: the audit names the mechanism by that line, and finds the patched script right."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import failuremap.catalogue.live
from audit.harness import JobServer
from failuremap.catalogue import mechanisms

PAGE = Path(__file__).parents[1] / "docs" / "fix.md"
LIVE = Path(failuremap.catalogue.live.__file__).parent

pytestmark = pytest.mark.torch


@dataclass(frozen=True)
class Fix:
    """A section of the page: what the audit says, on one line, and the patch."""

    said: str
    patch: str


def fixes() -> dict[str, Fix]:
    """Return the page's sections, by the mechanism that each one names."""
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        (slug,) = re.findall(r"failuremap show ([\w-]+)", section)
        (said,), (patch,) = (
            re.findall(rf"^```{kind}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL) for kind in ("text", "diff")
        )
        found[slug] = Fix(" ".join(said.split()), patch)
    return found


FIXES = fixes()


def wrong_script(slug: str) -> str:
    """Return a mechanism's live twin as it is without --fixed, and without what only that option runs."""
    source = (LIVE / f"{slug.replace('-', '_')}.py").read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for node in sorted(branches_on_fixed(ast.parse(source)), key=lambda node: -node.lineno):
        taken = node.body if isinstance(node.test, ast.UnaryOp) else node.orelse
        if isinstance(node, ast.IfExp):
            (line,) = lines[node.lineno - 1 : node.end_lineno]
            kept = line[taken.col_offset : taken.end_col_offset]
            lines[node.lineno - 1] = line[: node.col_offset] + kept + line[node.end_col_offset :]
        else:
            inner = lines[taken[0].lineno - 1 : taken[-1].end_lineno] if taken else []
            lines[node.lineno - 1 : node.end_lineno] = [line.removeprefix("    ") for line in inner]
    return "".join(lines)


def branches_on_fixed(tree: ast.AST) -> Iterator[ast.If | ast.IfExp]:
    """Yield the statements and expressions that choose by FIXED."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp) and "FIXED" in ast.unparse(node.test):
            yield node


def patched(source: str, patch: str) -> str:
    """Apply a patch of hunks without line numbers; each must fit one place."""
    for hunk in re.split(r"^@@\n", patch, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
        assert source.count(before) == 1, f"{source.count(before)} places fit:\n{before}"
        source = source.replace(before, after)
    return "import failuremap\n" + source if "failuremap.attach" in patch else source


def run(server: JobServer, script: Path, source: str) -> tuple[Any, str]:
    """Audit a script as its docstring says; return the verdict and what the script printed."""
    from failuremap.audit import diagnose

    script.write_text(source, encoding="utf-8")
    command = re.search(r"^failuremap audit (.*) -- ", source, re.MULTILINE)
    assert command
    given = shlex.split(command[1])
    options = dict(zip(given[::2], given[1::2], strict=True))
    trace = script.with_suffix(".traces")
    trace.mkdir()
    result = server.run_job(str(script), [], int(options["--nproc"]), trace)
    assert result.ok, result.output[-2000:]
    return diagnose(trace, unit=options.get("--unit")), result.output


def said_of(verdict: Any) -> str:
    """Return the lines of a report that the page shows, on one line."""
    mark = {"right": "✓", "wrong": "✗"}[verdict.outcome]
    named = [
        f"mechanism {mechanisms()[one.slug].title} (failuremap show {one.slug})"
        for finding in verdict.findings
        for one in finding.candidates
    ]
    return " ".join([mark, verdict.outcome, *verdict.sentence.split(), *named])


@pytest.mark.parametrize("slug", FIXES)
def test_the_audit_says_of_the_script_what_the_page_shows(job_server: JobServer, tmp_path: Path, slug: str) -> None:
    script = tmp_path / f"{slug.replace('-', '_')}.py"
    (tmp_path / "patched").mkdir()

    before, _ = run(job_server, script, wrong_script(slug))
    after, _ = run(job_server, tmp_path / "patched" / script.name, patched(wrong_script(slug), FIXES[slug].patch))

    assert said_of(before) == FIXES[slug].said
    assert (after.outcome, "factor of its own" in after.sentence) == ("right", False)


def test_the_patched_script_prints_the_loss_that_is_trained_on(job_server: JobServer, tmp_path: Path) -> None:
    wrong = wrong_script("metric-reduction")
    shown = re.sub(r"if rank == 0:", "if True:", patched(wrong, FIXES["metric-reduction"].patch))

    _, output = run(job_server, tmp_path / "script.py", shown)
    _, unpatched = run(job_server, tmp_path / "other.py", re.sub(r"if rank == 0:", "if True:", wrong))

    lines, before = (sorted(re.findall(r"^step .*$", text, re.MULTILINE)) for text in (output, unpatched))
    assert lines[::2] == lines[1::2]
    assert before[::2] != before[1::2]


def test_the_page_has_the_ten_commonest_mechanisms() -> None:
    assert len(FIXES) == 10
    assert set(FIXES) <= set(mechanisms())


def test_a_patch_that_does_not_fit_is_caught() -> None:
    with pytest.raises(AssertionError, match="0 places fit"):
        patched("loss.backward()\n", "-loss.backwards()\n+loss.backward()\n")


def test_a_script_without_its_repair_mentions_it_nowhere() -> None:
    for slug in FIXES:
        source = wrong_script(slug)
        compile(source, slug, "exec")
        assert source.count("FIXED") == 1  # where the option is read
