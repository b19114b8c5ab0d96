"""`failuremap audit --reference` from end to end, with the reference that docs/reference-run.md shows."""

from __future__ import annotations

import json
import re

import pytest

from audit.harness import REPOSITORY
from cli.user import User

pytestmark = [pytest.mark.torch, pytest.mark.slow]

JOB = """
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(2):
    tokens, targets = torch.randint(50, (2, 4 + rank)), torch.randint(50, (2, 4 + rank))
    optimizer.zero_grad()
    F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum").div(18).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    model[1].bias.grad.mul_(FACTOR)
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.fixture
def user(tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "reference-run.md").read_text(), re.DOTALL)
    (tmp_path / "ref.py").write_text(block)
    return User(tmp_path)


def audit(user: User, factor: int) -> tuple[int, dict]:
    """The exit code and the verdict of an audit of two ranks."""
    script = user.script(JOB.replace("FACTOR", str(factor)))
    process = user.start("audit", "--nproc", "2", "--reference", "ref.py:objective", "--json", "-", "--", str(script))
    out, err = process.communicate(timeout=300)
    assert out, err
    return process.returncode, json.loads(out)


@pytest.mark.parametrize(
    ("factor", "code", "sentence"),
    [
        (1, 0, "Every token weighs the same: the update is the mean over all tokens."),
        (2, 1, "1.bias: the update is 2.00 times that of a single process."),
    ],
)
def test_the_reference_of_the_docs_judges_a_job(factor, code, sentence, user):
    found, verdict = audit(user, factor)

    assert (found, verdict["sentence"]) == (code, sentence)
    assert verdict["notes"][0].startswith("steps 1, 2 were compared with one process on the same batches, on ")


def test_a_reference_that_is_not_there_is_bad_usage_and_nothing_runs(user):
    script = user.script("open('ran', 'w')")

    code, out, err = user.run("audit", "--reference", "no.py:objective", "--", str(script))

    assert (code, out) == (2, "")
    assert err.startswith("error: --reference='no.py:objective': the file 'no.py' doesn't exist")
    assert not (user.folder / "ran").exists()
