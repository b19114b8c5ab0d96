"""docs/trace-format.md is enough to write a trace: its example gets the verdict shown, its tables name all there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from audit.traces import HandJob
from failuremap.audit.trace import MAGIC, Record, read_folder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trace-format.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(SHOWN,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RIGHT = EXAMPLE.replace("COEFFICIENTS = [1 / 2, 1 / 2]", "COEFFICIENTS = [412 / 576, 164 / 576]")


def diagnosed(example: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the example, then the command of the page, each as a user would."""
    subprocess.run([sys.executable, "-c", example], cwd=folder, check=True)
    command = [sys.executable, "-m", "failuremap", "diagnose", "traces"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "118"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)


def test_the_example_needs_nothing_but_the_standard_library():
    imported = re.findall(r"^(?:import|from) (\w+)", EXAMPLE, re.MULTILINE)

    assert set(imported) <= set(sys.stdlib_module_names)


def test_the_example_gets_the_verdict_that_the_page_shows(tmp_path):
    result = diagnosed(EXAMPLE, tmp_path)

    assert (result.returncode, result.stdout.splitlines()[0].rstrip()) == (1, SHOWN.rstrip())


def test_the_right_form_of_the_example_is_right(tmp_path):
    assert RIGHT != EXAMPLE
    result = diagnosed(RIGHT, tmp_path)

    assert (result.returncode, result.stdout[:1]) == (0, "✓")


def test_the_page_names_the_magic_and_the_version():
    assert f'"{MAGIC.decode()[:-1]}\\n"' in PAGE
    assert f"version {MAGIC.decode()[-2]}\n" in PAGE.splitlines(keepends=True)[0]


def undocumented(fields: dict[str, object]) -> list[str]:
    """The fields of a record, of its losses, of its calls and of its path that the page does not name."""
    inner = [*fields.get("losses", []), *fields.get("calls", []), fields.get("path", {})]
    names = [*fields, *(name for part in inner for name in part)]
    return [name for name in names if f"`{name}`" not in PAGE and name != "kind"]


def test_the_page_names_every_field_of_a_hand_written_job(tmp_path):
    job = HandJob([[300]], path={"wrappers": 1, "forwards": 1, "armed": 1, "synchronising": True, "hooks": []})
    (read,) = read_folder(job.write(tmp_path))

    assert [undocumented(record.fields) for record in read.records() if undocumented(record.fields)] == []


def test_a_field_that_the_page_does_not_name_is_caught():
    assert undocumented({"kind": "note", "text": "x", "wibble": 1}) == ["wibble"]


@pytest.mark.torch
def test_the_page_names_every_kind_and_field_that_capture_writes(job_server, tmp_path):
    from audit.capture.watched import watch

    seen = watch(
        job_server,
        tmp_path,
        """
import failuremap
embed, head = torch.nn.Embedding(300, 4), torch.nn.Linear(4, 5)
model = torch.nn.Sequential(embed, head)
step = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randint(300, (2, 6)), torch.randint(5, (2, 6))
head.bias.register_hook(lambda gradient: 2 * gradient)
failuremap.count(3)
weight = torch.ones(5)
loss = F.cross_entropy(model(x).view(-1, 5), y.view(-1), weight=weight)
(loss + F.cross_entropy(model(x).transpose(1, 2), y, reduction="none").mean()).backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
step.step()
""",
    )

    assert {record.kind for record in seen.records} >= {
        "header", "parameter", "backward", "clip", "value-clip", "step", "end",
    }  # fmt: skip
    assert unnamed(seen.records) == []


def unnamed(records: list[Record]) -> list[object]:
    """The kinds and fields of records that the page does not name."""
    kinds = [record.kind for record in records if f"### {record.kind}" not in PAGE and f"`{record.kind}`" not in PAGE]
    return [*kinds, *(undocumented(record.fields) for record in records if undocumented(record.fields))]


@pytest.mark.torch
def test_the_page_names_every_kind_and_field_of_a_sharded_job(job_server, tmp_path):
    from audit.capture.sharded_job import watch_ranks

    (seen, _) = watch_ranks(
        job_server,
        tmp_path,
        "sharded(); step = sgd(); back(); nn.utils.clip_grad_value_(model.parameters(), 0.1); step.step()",
    )

    assert {record.kind for record in seen.records} >= {"layout", "value-clip"}
    assert unnamed(seen.records) == []


@pytest.mark.torch
def test_the_page_names_every_kind_and_field_of_a_job_with_collectives(job_server, tmp_path):
    from audit.capture.test_collectives import watch

    seen, _ = watch(
        job_server,
        tmp_path,
        """
        out = Sum.apply(model(x))
        dist.all_gather([torch.empty_like(out) for _ in range(2)], out)
        F.cross_entropy(out, y).backward()
        reduce()
        pending = dist.all_reduce(model.weight.grad.clone(), op=dist.ReduceOp.MAX, async_op=True)
        try:
            dist.all_reduce(None)
        except TypeError:
            step.step()
        """,
    )

    named = {field for record in seen.of("collectives") for call in record.fields["calls"] for field in call}
    assert named >= {"op", "by", "carries_gradient", "rows", "parameters", "other_elements", "waiting", "errors"}
    assert unnamed(seen.records) == []
