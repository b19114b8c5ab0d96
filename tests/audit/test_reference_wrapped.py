"""Models that are wrapped, shared or beside another one, and batches of other forms: each right, and once wrong."""

from __future__ import annotations

import pytest

from audit.referring import OBJECTIVE, REFERENCE, names, referred

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TRAIN = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=SCALED)
torch.manual_seed(10 + rank)
for _ in range(3):
    n = 5 + 4 * rank
    x, y = torch.randint(5, (n,)), torch.randint(5, (n,))
    optimizer.zero_grad()
    scores = model(CALL).float()
    scaler.scale(LOSS).backward()
    AFTER
    scaler.step(optimizer)
    scaler.update()
"""
SUM, MEAN = "F.cross_entropy(scores, y, reduction='sum') * world_size / 14", "F.cross_entropy(scores, y)"


def job(model, loss=SUM, after="pass", call="x", scaled=False):
    """A job of two ranks, with 5 examples on one and 9 on the other."""
    train = TRAIN.replace("LOSS", loss).replace("AFTER", after).replace("CALL", call)
    return f"torch.manual_seed(0)\n{model}\n" + train.replace("SCALED", str(scaled))


DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP1 = """
from torch.distributed.fsdp import FullyShardedDataParallel
model = FullyShardedDataParallel(
    Net(), device_id=torch.device("cpu"), use_orig_params=True,
    auto_wrap_policy=lambda module, recurse, nonwrapped_numel: recurse or isinstance(module, nn.Linear),
)
"""
FSDP2 = """
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
model = Net()
for part in (model.up, model):
    fully_shard(part, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
"""
TIED = """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.middle, self.head = nn.Embedding(5, 16), nn.Linear(16, 16), nn.Linear(16, 5, bias=False)
        self.head.weight = self.embed.weight
    def forward(self, x):
        return self.head(torch.tanh(self.middle(self.embed(x))))
"""
TEACHER = f"""
class Dropping(Net):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.0)
teacher = Dropping().requires_grad_(False)
model = {DDP}(Dropping())
"""
IN_BFLOAT16 = """
import torch
def objective(model, batch):
    (x,), (y,) = batch.args, batch.targets
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(x)
    return F.cross_entropy(scores.float(), y, reduction="sum"), len(y)
"""


def referring(model="", build="Net", objective=OBJECTIVE):
    """A reference with another model, or another objective."""
    return "import torch\n" + REFERENCE.replace("build = Net\n", f"{model}\nbuild = {build}\n") + objective


CASES = {
    "fsdp 1": (FSDP1, REFERENCE, False, "model.up.bias.grad is None or model.up.bias.grad.mul_(2)", "up.bias"),
    "fsdp 2, bfloat16": (FSDP2, referring(objective=IN_BFLOAT16), False, "model.up.bias.grad.mul_(2)", "up.bias"),
    "tied": (
        f"{TIED}model = {DDP}(Tied())", referring(TIED, "Tied"), False,
        "model.module.embed.weight.grad.mul_(2)", "embed.weight",
    ),
    "teacher": (
        TEACHER, referring(TEACHER[: TEACHER.index("teacher =")], "Dropping"), False,
        "model.module.up.bias.grad.mul_(2)", "up.bias",
    ),
    "scaled": (f"model = {DDP}(Net())", REFERENCE, True, "model.module.up.bias.grad.mul_(2)", "up.bias"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_right_job_is_right(case, job_server, tmp_path):
    model, reference, scaled, _, _ = CASES[case]

    assert referred(job_server, tmp_path, job(model, scaled=scaled), reference).outcome == "right"


@pytest.mark.parametrize("case", CASES)
def test_a_parameter_that_is_multiplied_is_told(case, job_server, tmp_path):
    model, reference, scaled, after, touched = CASES[case]
    verdict = referred(job_server, tmp_path, job(model, after=after, scaled=scaled), reference)

    assert verdict.sentence == f"{touched}: the update is 2.00 times that of a single process."


BATCHES = """
from dataclasses import dataclass
@dataclass
class Rows:
    tokens: torch.Tensor
    mask: object = None
class Taking(Net):
    def forward(self, rows, extra, names=()):
        return super().forward(rows["tokens"] if isinstance(rows, dict) else rows.tokens)
"""
TAKING = """
def objective(model, batch):
    assert batch.args[0]["mask"] is None and batch.args[1] is None and batch.kwargs == {"names": ("a", 1)}
    return F.cross_entropy(model(*batch.args), batch.targets[0], reduction="sum"), len(batch.targets[0])
"""


@pytest.mark.parametrize(("loss", "named"), [(SUM, []), (MEAN, ["replica-means-ignore-counts"])])
def test_a_batch_of_a_dataclass_none_and_names_comes_as_plain_data(loss, named, job_server, tmp_path):
    source = job(f"{BATCHES}model = {DDP}(Taking())", loss, call="Rows(x), None, names=('a', 1)")
    verdict = referred(job_server, tmp_path, source, referring(BATCHES, "Taking", TAKING))

    assert (verdict.outcome, names(verdict)) == ("wrong" if named else "right", named)
