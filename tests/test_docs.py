"""What the documents say is run: code, commands, options, targets; and every public name says what it is."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from failuremap.cli import main as command_line

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "failuremap"
# What each form of a mechanism is, `Mechanism` says once; the forms are shown to readers as they are run.
FORMS = frozenset({"broken", "attempt", "fixed", "checks"})
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(text: str, *languages: str) -> list[str]:
    """Return the fenced blocks of a page in these languages."""
    return [body for language, body in BLOCK.findall(text) if language in languages]


def run_python(text: str) -> int:
    """Execute a page's python blocks one after another; return how many there were."""
    names: dict[str, object] = {"__name__": "page"}
    blocks = blocks_of(text, "python")
    for block in blocks:
        if ">>>" in block:
            run_session(block, names)
        else:
            exec(compile(block, "page", "exec"), names)
    return len(blocks)


def run_session(block: str, names: dict[str, object]) -> None:
    """Run a block of prompts and compare what it prints with what it shows."""
    test = doctest.DocTestParser().get_doctest(block, names, "page", None, 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=printed.append, clear_globs=False)
    names.update(test.globs)
    assert result.failed == 0, "".join(printed)


def commands_of(text: str) -> list[str]:
    """Return the `failuremap` and `make` lines that a page's shell blocks show, continuation lines joined."""
    joined = "\n".join(blocks_of(text, "bash", "sh", "console")).replace("\\\n", " ")
    lines = [line.split(" #")[0].strip().removeprefix("$ ") for line in joined.splitlines()]
    return [line for line in lines if re.match(r"(failuremap|make)( |$)", line)]


def complaint_about(line: str) -> str | None:
    """Say what a shown command line gets wrong, if anything."""
    words = shlex.split(line)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        unknown = [word for word in words[1:] if "=" not in word and word not in targets]
        return f"no target {unknown}" if unknown else None
    return complaint_about_options(command_line, words[1:])


def complaint_about_options(command: click.Command, words: list[str]) -> str | None:
    """Say which subcommand or option a `failuremap` line shows that does not exist, if any."""
    if isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.commands.get(words[0])
        return complaint_about_options(inner, words[1:]) if inner else f"no command {words[0]!r}"
    ours = words[: words.index("--")] if "--" in words else words
    known = {"-h", "--help", "--version", *(option for parameter in command.params for option in parameter.opts)}
    known |= {option for parameter in command.params for option in parameter.secondary_opts}
    unknown = [word for word in ours if word.startswith("-") and word.split("=")[0] not in known]
    return f"{command.name} has no option {unknown}" if unknown else None


def undocumented(source: str, exempt: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the public functions, classes and methods of a file that have no docstring."""
    tree = ast.parse(source)
    if not ast.get_docstring(tree):
        yield "the module"
    for node in tree.body:
        yield from (name for name in _undocumented_in(node, "") if name not in exempt)


def _undocumented_in(node: ast.stmt, prefix: str) -> Iterator[str]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
        return
    if any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list):
        return
    if not ast.get_docstring(node):
        yield prefix + node.name
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            yield from _undocumented_in(inner, f"{prefix}{node.name}.")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    run_python(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_exist(page):
    complaints = {line: complaint_about(line) for line in commands_of(page.read_text(encoding="utf-8"))}

    assert {line: complaint for line, complaint in complaints.items() if complaint} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_of_the_docs_is_in_their_list():
    listed = set(re.findall(r"\]\(([\w/.-]+\.md)\)", (ROOT / "docs" / "README.md").read_text(encoding="utf-8")))

    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} | {"frameworks/index.md"}


def test_the_readme_shows_code_and_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert run_python(text) >= 1
    assert {"make demo", "make test"} <= set(commands_of(text))
    assert any(line.startswith("failuremap audit") for line in commands_of(text))


@pytest.mark.parametrize("block", ["assert 1 + 1 == 3\n", ">>> 1 + 1\n3\n"])
def test_a_page_whose_code_is_wrong_is_caught(block):
    with pytest.raises(AssertionError):
        run_python(f"```python\n{block}```\n")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("make dmeo", "no target"),
        ("failuremap adit", "no command 'adit'"),
        ("failuremap audit --nporc 2 -- train.py", "audit has no option ['--nporc']"),
    ],
)
def test_a_command_that_does_not_exist_is_caught(line, complaint):
    (shown,) = commands_of(f"```bash\n$ {line}\n```\n")

    assert complaint in complaint_about(shown)


def test_every_public_name_has_a_docstring():
    missing = {
        str(path.relative_to(SOURCE)): names
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parent.name != "live"  # training scripts as people write them
        and (
            names := list(
                undocumented(
                    path.read_text(encoding="utf-8"), FORMS if path.parent.name == "mechanisms" else frozenset()
                )
            )
        )
    }

    assert missing == {}


def test_a_name_without_a_docstring_is_caught():
    source = '"""Module."""\ndef f(): pass\ndef _g(): pass\nclass A:\n    """A."""\n    def m(self): pass\n'

    assert list(undocumented(source)) == ["f", "A.m"]


def test_every_command_and_option_has_a_help_text():
    silent = [
        f"{name} {parameter.name}"
        for name, command in command_line.commands.items()
        for parameter in [command, *command.params]
        if not isinstance(parameter, click.Argument) and not parameter.help
    ]

    assert silent == []


def test_the_generated_pages_are_up_to_date():
    assert generator().stale_pages(ROOT / "docs") == {}


def test_a_stale_generated_page_is_caught(tmp_path):
    (tmp_path / "commands.md").write_text("old\n")

    stale = generator().stale_pages(tmp_path)

    assert list(stale) == list(generator().PAGES)
    assert "-old\n" in stale["commands.md"]


def generator():
    """Return docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.torch
def test_the_audit_of_the_readme_is_what_it_prints():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in commands_of(text) if line.startswith("failuremap audit")]
    (shown,) = [block for block in blocks_of(text, "text") if "a fair share" in block]
    command = [sys.executable, "-m", *shlex.split(line)]

    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "COLUMNS": "118"})

    assert run.returncode == 1
    assert facts_of(shown) == facts_of(run.stdout)


def facts_of(page: str) -> list[str]:
    """Return the lines of a verdict page that are the same on every machine: the sentence, the rules, the cells."""
    starts = re.compile(r"✗|✓| +(step|rank|followed|promised|mechanism) ")
    return [line.rstrip() for line in page.splitlines() if starts.match(line)]
