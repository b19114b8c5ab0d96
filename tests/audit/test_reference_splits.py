"""Models that lie in pieces on the ranks, beside one process: stages of a pipeline, experts, and one weight twice."""

from __future__ import annotations

import pytest

from audit.referring import names, referred
from failuremap.audit import diagnose

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LAYERS = """
from torch import nn
import torch.nn.functional as F
class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(23, 16), nn.Linear(16, 23)
        self.layers = nn.ModuleDict({str(i): nn.Linear(16, 16) for i in range(4)})
    def forward(self, x):
        x = x if self.embed is None else self.embed(x)
        for layer in self.layers.values():
            x = torch.tanh(layer(x)) + x
        return x if self.head is None else self.head(x)
"""
PIPELINE = (
    LAYERS
    + """
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
torch.manual_seed(0)
model = Layers()
left_out = ["2", "3"] if rank == 0 else ["0", "1"]
for name in left_out:
    del model.layers[name]
setattr(model, "embed" if rank else "head", None)

def loss_of(scores, targets):
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum") / DIVISOR

stage = PipelineStage(model, rank, world_size, torch.device("cpu"))
schedule = SCHEDULE(stage, n_microbatches=4, loss_fn=loss_of, scale_grads=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    tokens = torch.randint(23, (8, 10), generator=torch.Generator().manual_seed(step))
    targets = tokens.roll(-1, 1)
    for row in range(8):
        targets[row, :row] = -100
    counted = (targets != -100).sum()
    optimizer.zero_grad()
    schedule.step(*[tokens] if rank == 0 else [], **{"target": targets} if rank else {})
    AFTER
    optimizer.step()
"""
)
WHOLE = (
    "import torch"
    + LAYERS
    + """
build, stages = Layers, True
def gather(batches):
    first, last = batches
    return torch.cat([call.args[0] for call in first.calls]), torch.cat(last.targets)
def objective(model, batch):
    tokens, targets = batch
    scores = model(tokens).flatten(0, 1)
    return F.cross_entropy(scores, targets.flatten(), reduction="sum"), (targets != -100).sum()
"""
)
ALL, OWN = "counted", "(4 * (targets != -100).sum())"


def pipeline(schedule="ScheduleGPipe", divisor=ALL, after="pass"):
    """A job of two stages and four micro-batches."""
    return PIPELINE.replace("SCHEDULE", schedule).replace("DIVISOR", divisor).replace("AFTER", after)


@pytest.mark.parametrize("schedule", ["ScheduleGPipe", "Schedule1F1B"])
def test_stages_of_a_pipeline_are_compared_with_the_whole_model(schedule, job_server, tmp_path):
    verdict = referred(job_server, tmp_path, pipeline(schedule), WHOLE)

    assert verdict.outcome == "right"
    assert any(note.startswith("steps 1, 2 were compared") and "on 11 parameters" in note for note in verdict.notes)


def test_micro_batches_of_a_pipeline_that_weigh_alike_are_named(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, pipeline("Schedule1F1B", OWN), WHOLE)

    assert (verdict.outcome, names(verdict)) == ("wrong", ["mean-of-microbatch-means"])


def test_a_parameter_of_the_first_stage_is_told_by_its_name(job_server, tmp_path):
    after = "None if rank else model.layers['1'].bias.grad.mul_(2)"
    verdict = referred(job_server, tmp_path, pipeline(after=after), WHOLE)

    assert verdict.sentence == "layers.1.bias: the update is 2.00 times that of a single process."


def test_a_pipeline_needs_its_inputs_and_targets_put_together(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, pipeline(), WHOLE.replace("def gather", "def put"))

    assert verdict.reasons[0] == (
        "no step was compared with one process: stages = True, and no gather(batches): the first stage has the inputs "
        "and the last one the targets of a micro-batch. Define one that returns both"
    )


MIXED = """
from torch import nn
import torch.nn.functional as F
class Mixed(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.first, self.router, self.last = nn.Linear(8, 12), nn.Linear(12, 2), nn.Linear(12, 5)
        self.experts = nn.Parameter(torch.randn(count, 12, 12) / 4)
    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        gates = self.router(hidden).softmax(-1).T[:, :, None]
        return self.last((gates * self.run(hidden)).sum(0))
    def run(self, hidden):
        return torch.stack([torch.tanh(hidden @ expert) for expert in self.experts])
"""
EXPERTS = (
    MIXED
    + """
def exchanged(tensor):
    parts = [torch.empty_like(tensor) for _ in range(world_size)]
    dist.all_gather(parts, tensor.contiguous())
    return torch.stack([part[rank] for part in parts])

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor): return exchanged(tensor)
    @staticmethod
    def backward(ctx, gradient): return BACKWARD

class OneExpert(Mixed):
    def run(self, hidden):
        arrived = Exchange.apply(torch.stack([hidden, hidden]))
        return Exchange.apply(torch.tanh(arrived @ self.experts[0]))

torch.manual_seed(0)
whole, model = Mixed(2).state_dict(), OneExpert(1)
whole["experts"] = whole["experts"][rank : rank + 1]
model.load_state_dict(whole)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(10 + rank)
for _ in range(3):
    x, y = torch.randn(6, 8), torch.randint(5, (6,))
    optimizer.zero_grad()
    (F.cross_entropy(model(x), y, reduction="sum") / 12).backward()
    for name, parameter in model.named_parameters():
        if name != "experts":
            dist.all_reduce(parameter.grad)
    AFTER
    optimizer.step()
"""
)
ALL_EXPERTS = (
    "import torch"
    + MIXED
    + """
shards = {"experts": 0}
def build():
    return Mixed(2)
def objective(model, batch):
    (x,), (y,) = batch.args, batch.targets
    return F.cross_entropy(model(x), y, reduction="sum"), len(y)
"""
)


@pytest.mark.parametrize(
    ("backward", "after", "outcome", "named"),
    [
        ("exchanged(gradient)", "pass", "right", []),
        ("exchanged(gradient)", "model.experts.grad.mul_(2)", "wrong", ["expert-divisor-misses-ep"]),
        ("gradient", "pass", "wrong", ["wrong-backward-scale"]),
    ],
    ids=["right", "divided by fewer", "backward sends nothing back"],
)
def test_experts_of_each_rank_are_compared_with_all_of_them(backward, after, outcome, named, job_server, tmp_path):
    source = EXPERTS.replace("BACKWARD", backward).replace("AFTER", after)
    verdict = referred(job_server, tmp_path, source, ALL_EXPERTS)
    (tmp_path / "trace" / "reference.gradients").unlink()
    alone = diagnose(tmp_path / "trace")

    assert (verdict.outcome, names(verdict)) == (outcome, named)
    assert outcome == "wrong" or (alone.outcome, alone.findings) == ("cannot tell", [])
