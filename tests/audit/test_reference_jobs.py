"""Real jobs of two ranks beside one process on the same batches: what agrees, what does not, and what it is called."""

from __future__ import annotations

import pytest

from audit.referring import OBJECTIVE, REFERENCE, names, referred
from failuremap.audit import diagnose

pytestmark = [pytest.mark.torch, pytest.mark.slow]

DDP = """
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(SEED + rank)
for _ in range(3):
    n = 5 + 4 * rank
    x, y = torch.randint(300, (n,)), torch.randint(5, (n,))
    optimizer.zero_grad()
    LOSS.backward()
    AFTER
    optimizer.step()
"""
RIGHT = "(F.cross_entropy(model(x), y, reduction='sum') * world_size / 14)"
MEANS = "F.cross_entropy(model(x), y)"


def ddp(loss=RIGHT, after="pass", seed=10):
    """A data-parallel job with 5 examples on rank 0 and 9 on rank 1."""
    return DDP.replace("LOSS", loss).replace("AFTER", after).replace("SEED", str(seed))


def compared_parameters(verdict):
    """The note on what was compared."""
    return next((note for note in verdict.notes if "compared with one process" in note), "")


def test_a_right_job_is_right_beside_one_process(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, ddp())

    assert verdict.outcome == "right"
    assert compared_parameters(verdict).startswith(
        "steps 1, 2 were compared with one process on the same batches, on 5 "
    )


def test_the_comparison_names_what_the_plain_audit_names(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, ddp(loss=MEANS))
    (tmp_path / "trace" / "reference.gradients").unlink()
    plain = diagnose(tmp_path / "trace")

    assert (verdict.outcome, names(verdict)) == ("wrong", ["replica-means-ignore-counts"])
    assert (verdict.sentence, names(verdict)) == (plain.sentence, names(plain))


CUSTOM = "(model(x).gather(1, y[:, None])[:, 0] - 1).abs().pow(1.5).mean()"
CUSTOM_OBJECTIVE = """
import torch
def objective(model, batch):
    x, y = batch.told
    return (model(x).gather(1, y[:, None])[:, 0] - 1).abs().pow(1.5).sum(), len(y)
"""


def test_a_loss_that_the_plain_audit_cannot_read_is_named(job_server, tmp_path):
    source = "import failuremap\n" + ddp(loss=f"failuremap.batch(x, y); {CUSTOM}")
    reference = REFERENCE.replace(OBJECTIVE, CUSTOM_OBJECTIVE)
    verdict = referred(job_server, tmp_path, source, reference)
    (tmp_path / "trace" / "reference.gradients").unlink()

    assert (verdict.outcome, names(verdict)) == ("wrong", ["replica-means-ignore-counts"])
    assert verdict.sentence == "A token on rank 0 weighs 1.80 times a token on rank 1."
    assert diagnose(tmp_path / "trace").outcome == "not measured"


def test_negative_control_the_same_loss_rightly_weighed_is_right(job_server, tmp_path):
    right = CUSTOM.replace(".mean()", ".sum() * world_size / 14")
    source = "import failuremap\n" + ddp(loss=f"failuremap.batch(x, y); ({right})")

    assert referred(job_server, tmp_path, source, REFERENCE.replace(OBJECTIVE, CUSTOM_OBJECTIVE)).outcome == "right"


def test_a_factor_on_one_bias_is_told_by_its_name(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, ddp(after="model.module.up.bias.grad.mul_(3)"))

    assert verdict.outcome == "wrong"
    assert verdict.sentence == "up.bias: the update is 3.00 times that of a single process."
    assert verdict.findings[0].parameters == ["up.bias"]


PENALTY = "sum(p.square().sum() for p in model.module.up.parameters())"


@pytest.mark.parametrize(("own", "outcome"), [("", "cannot tell"), (f" + len(y) * {PENALTY}", "right")])
def test_an_objective_without_a_term_of_the_loss_accuses_nobody(own, outcome, job_server, tmp_path):
    right = OBJECTIVE.replace('reduction="sum")', f'reduction="sum"){own.replace("module.", "")}')
    source = ddp(loss=f"({RIGHT} + {PENALTY})")

    assert referred(job_server, tmp_path, source, REFERENCE.replace(OBJECTIVE, right)).outcome == outcome


TENSOR_PARALLEL = """
def total(tensor):
    dist.all_reduce(summed := tensor.clone())
    return summed

class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor): return tensor
    @staticmethod
    def backward(ctx, gradient): return BACKWARD

class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor): return total(tensor)
    @staticmethod
    def backward(ctx, gradient): return gradient

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(32, 16), nn.Linear(16, 32)
        torch.manual_seed(1 + rank)
        self.up, self.down = nn.Linear(16, 32 // world_size), nn.Linear(32 // world_size, 16, bias=False)
    def forward(self, tokens):
        hidden = self.embed(tokens)
        return self.head(hidden + Reduce.apply(self.down(self.up(Copy.apply(hidden)).relu())))

model = Part()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(5)
for _ in range(3):
    tokens = torch.randint(32, (4, 9))
    optimizer.zero_grad()
    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
    optimizer.step()
"""
WHOLE = """
from torch import nn
import torch.nn.functional as F
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(32, 16), nn.Linear(16, 32)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16, bias=False)
    def forward(self, tokens):
        hidden = self.embed(tokens)
        return self.head(hidden + self.down(self.up(hidden).relu()))
build = Whole
shards = {"up.*": 0, "down.weight": 1}
def objective(model, batch):
    (tokens,), (targets,) = batch.args, batch.targets
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum"), targets.numel()
"""


def test_a_layer_split_by_hand_whose_backward_adds_up_is_right(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, TENSOR_PARALLEL.replace("BACKWARD", "total(gradient)"), WHOLE)

    assert verdict.outcome == "right"


def test_a_backward_without_its_all_reduce_is_wrong_on_what_lies_before_it(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, TENSOR_PARALLEL.replace("BACKWARD", "gradient"), WHOLE)

    assert verdict.outcome == "wrong"
    assert verdict.findings[0].parameters == ["embed.weight"]
    assert verdict.sentence.startswith(
        "The update of one parameter differs from that of a single process: embed.weight by "
    )


def test_a_backward_that_adds_up_twice_is_told_with_its_factor(job_server, tmp_path):
    source = TENSOR_PARALLEL.replace("BACKWARD", "world_size * total(gradient)")

    assert referred(job_server, tmp_path, source, WHOLE).findings[0].parameters == ["embed.weight"]


FSDP = """
from torch.distributed.fsdp import fully_shard
torch.manual_seed(0)
model = Net()
fully_shard(model.up)
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(10 + rank)
for _ in range(3):
    n = 5 + 4 * rank
    x, y = torch.randint(300, (n,)), torch.randint(5, (n,))
    optimizer.zero_grad()
    LOSS.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "outcome", "named"), [(RIGHT, "right", []), (MEANS, "wrong", ["replica-means-ignore-counts"])]
)
def test_sharded_parameters_are_put_together_for_one_process(loss, outcome, named, job_server, tmp_path):
    verdict = referred(job_server, tmp_path, FSDP.replace("LOSS", loss))

    assert (verdict.outcome, names(verdict)) == (outcome, named)
    assert "on 5 parameters" in compared_parameters(verdict)


DTENSOR = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cpu", (world_size,))
torch.manual_seed(0)
model = parallelize_module(Net(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(10)
for _ in range(3):
    x, y = torch.randint(300, (7,)), torch.randint(5, (7,))
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    AFTER
    optimizer.step()
"""


@pytest.mark.parametrize(("after", "outcome"), [("pass", "right"), ("model.up.bias.grad.mul_(2)", "wrong")])
def test_a_model_that_dtensor_splits_is_compared_with_the_whole_one(after, outcome, job_server, tmp_path):
    verdict = referred(job_server, tmp_path, DTENSOR.replace("AFTER", after))

    assert verdict.outcome == outcome
    assert [finding.parameters for finding in verdict.findings] == ([["up.bias"]] if outcome == "wrong" else [])


def small(dtype, **how):
    """The data-parallel job in a small type."""
    return ddp(**how).replace("(Net())", f"(Net().to(torch.{dtype}))")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("seed", range(2))
def test_arithmetic_in_a_small_type_is_no_difference(dtype, seed, job_server, tmp_path):
    assert referred(job_server, tmp_path, small(dtype, seed=20 + seed)).outcome == "right"


@pytest.mark.parametrize(("dtype", "times"), [("bfloat16", "1.20"), ("float16", "1.02")])
def test_negative_control_what_is_more_than_arithmetic_is_told(dtype, times, job_server, tmp_path):
    verdict = referred(job_server, tmp_path, small(dtype, after=f"model.module.up.weight.grad.mul_({times})"))

    assert verdict.sentence == f"up.weight: the update is {times} times that of a single process."
