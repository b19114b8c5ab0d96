"""More real jobs beside one process: several batches a window, parts of sequences, deep models, what is refused."""

from __future__ import annotations

import pytest

from audit.referring import OBJECTIVE, REFERENCE, names, referred
from audit.test_crossing_jobs import SEQUENCE_PARALLEL
from audit.test_crossing_jobs import START as SUM

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ACCUMULATING = """
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(10 + rank)
for sizes in SIZES:
    optimizer.zero_grad()
    units = sum(n + m for n, m in sizes)
    for n in [pair[rank] for pair in sizes]:
        x, y = torch.randint(300, (n,)), torch.randint(5, (n,))
        (LOSS).backward()
    CLIP
    optimizer.step()
"""
TWO = [[(3, 5), (7, 2)]] * 3
RIGHT = "F.cross_entropy(model(x), y, reduction='sum') * world_size / units"


def accumulating(loss=RIGHT, sizes=TWO, clip="pass"):
    """A data-parallel job; `sizes` are those of the batches of each window, rank by rank."""
    return ACCUMULATING.replace("SIZES", str(sizes)).replace("LOSS", loss).replace("CLIP", clip)


def test_a_window_of_two_batches_is_compared_batch_by_batch(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, accumulating())

    assert (verdict.outcome, len(verdict.cells)) == ("right", 4)


def test_means_of_micro_batches_are_named(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, accumulating("F.cross_entropy(model(x), y) / 2"))

    assert verdict.outcome == "wrong"
    assert verdict.findings[0].ratio == pytest.approx(3.5, rel=1e-3)


def test_a_clip_that_bites_is_undone_before_weights_are_compared(job_server, tmp_path):
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)"

    assert referred(job_server, tmp_path, accumulating(clip=clip)).outcome == "right"


CUSTOM = "import failuremap\n" + accumulating("failuremap.batch(x, y) or custom(model(x), y) * world_size / units")
LOSS = """
def custom(scores, y):
    return (scores.gather(1, y[:, None])[:, 0] - 1).abs().pow(1.5).sum()
"""
CUSTOM_REFERENCE = REFERENCE.replace(OBJECTIVE, "import torch" + LOSS) + (
    "def objective(model, batch):\n    return custom(model(batch.told[0]), batch.told[1]), len(batch.told[1])\n"
)


def test_a_window_unlike_those_compared_is_not_called_right(job_server, tmp_path):
    source = LOSS + CUSTOM.replace(str(TWO), str([*TWO, [(4, 6)]]))

    verdict = referred(job_server, tmp_path, source, CUSTOM_REFERENCE)

    assert verdict.outcome == "not measured"


def test_negative_control_with_windows_of_one_length_it_is_right(job_server, tmp_path):
    assert referred(job_server, tmp_path, LOSS + CUSTOM, CUSTOM_REFERENCE).outcome == "right"


SPLIT = SUM[SUM.index("def total") :] + SEQUENCE_PARALLEL
GATHERED = """
import torch
from torch import nn
import torch.nn.functional as F
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head, self.gate = nn.Embedding(32, 16), nn.Linear(16, 32), nn.Parameter(torch.ones(1))
    def forward(self, tokens):
        hidden = self.embedding(tokens)
        halves = hidden.reshape(len(tokens), 2, -1, 16).mean(2, keepdim=True).sum(1) / 2
        return self.head(hidden + self.gate * halves)
build = Mixer
def gather(batches):
    inputs = torch.cat([batch.args[0] for batch in batches], 1)
    return inputs, torch.cat([batch.targets[0].reshape(4, -1) for batch in batches], 1)
def objective(model, batch):
    inputs, targets = batch
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum"), targets.numel()
"""


@pytest.mark.parametrize(("left_out", "outcome"), [("", "right"), ("gate", "wrong")])
def test_parts_of_a_sequence_are_gathered_into_one_batch(left_out, outcome, job_server, tmp_path):
    verdict = referred(job_server, tmp_path, f"LEFT_OUT = {left_out!r}\n" + SPLIT, GATHERED)

    assert verdict.outcome == outcome
    assert [finding.parameters for finding in verdict.findings] == ([["gate"]] if left_out else [])
    assert names(verdict) == (["partials-not-reduced"] if left_out else [])


def wrapped(model, reference=None):
    """A right job, and its reference, with another model."""
    net = f"class Other(Net):\n{model}\n"
    source = net + accumulating().replace("(Net())", "(Other())")
    return source, REFERENCE.replace("build = Net\n", net + "build = Other\n") if reference is None else reference


def test_dropout_leaves_it_untold(job_server, tmp_path):
    source, reference = wrapped(
        "    def __init__(self):\n        super().__init__()\n        self.drop = nn.Dropout(0.1)\n"
        "    def forward(self, x):\n        return self.down(self.drop(self.up(self.embed(x))))"
    )

    verdict = referred(job_server, tmp_path, source, reference)

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0].startswith("no step was compared with one process: the objective is random: ")


def test_a_batch_norm_leaves_it_untold(job_server, tmp_path):
    source, reference = wrapped(
        "    def __init__(self):\n        super().__init__()\n        self.norm = nn.BatchNorm1d(20)\n"
        "    def forward(self, x):\n        return self.down(self.norm(self.up(self.embed(x))))"
    )

    verdict = referred(job_server, tmp_path, source, reference)

    assert verdict.outcome == "cannot tell"
    assert verdict.reasons[0].startswith(
        "no step was compared with one process: 'norm' is a BatchNorm1d in training mode"
    )


def test_a_model_of_the_scripts_own_needs_build(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, accumulating(), OBJECTIVE)

    assert verdict.outcome == "cannot tell"
    assert "define  build()  in the reference" in verdict.reasons[0]


def test_a_wrong_job_stays_wrong_where_nothing_can_be_compared(job_server, tmp_path):
    verdict = referred(job_server, tmp_path, accumulating("F.cross_entropy(model(x), y) / 2"), OBJECTIVE)

    assert verdict.outcome == "wrong"
    assert any("define  build()" in reason for reason in verdict.reasons)


def test_ranks_on_the_same_data_stay_wrong(job_server, tmp_path):
    source = accumulating(sizes=[[(5, 5)]] * 3).replace("10 + rank", "10")

    assert names(referred(job_server, tmp_path, source)) == ["same-data-on-all-ranks"]


DEEP = """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        h = self.norm(x)
        q, k, v = (f(h).unflatten(-1, (-1, x.shape[-1] // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.blocks = nn.ModuleList(Block(32, 4) for _ in range(6))
    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
""".replace("// HEADS", "// 4")
TRAIN = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(DATA)
for _ in range(3):
    x, y = torch.randint(50, (2 + rank * SAME, 9)), torch.randint(50, (2 + rank * SAME, 9))
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=CAST):
        scores = model(x)
    loss = F.cross_entropy(scores.float().flatten(0, 1), y.flatten(), reduction="sum") * SCALE
    loss.backward()
    PLANTED
    optimizer.step()
"""
DEEP_REFERENCE = (
    "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
    + DEEP
    + """
build = Deep
def objective(model, batch):
    (x,), (y,) = batch.args, batch.targets
    with torch.autocast("cpu", torch.bfloat16, enabled=CAST):
        scores = model(x)
    return F.cross_entropy(scores.float().flatten(0, 1), y.flatten(), reduction="sum"), y.numel()
"""
)
FSDP = """
from torch.distributed.fsdp import fully_shard
model = Deep()
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
"""
TENSOR_PARALLEL = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
plan = {f"blocks.*.{name}": ColwiseParallel() for name in ("q", "k", "v", "up")}
plan |= {f"blocks.*.{name}": RowwiseParallel() for name in ("o", "down")}
model = parallelize_module(Deep(), init_device_mesh("cpu", (2,)), plan)
"""
# how the model is made, and whether each rank has batches of its own
HOW = {
    "ddp": ("model = torch.nn.parallel.DistributedDataParallel(Deep())", 1),
    "fsdp": (FSDP, 1),
    "tensor parallel": (TENSOR_PARALLEL, 0),
}


def deep(job_server, folder, how, cast, seed, planted="pass"):
    """The verdict on a job of six blocks of attention."""
    made, same = HOW[how]
    source = f"torch.manual_seed({seed})\n{DEEP}{made}{TRAIN}".replace("CAST", str(cast)).replace("SAME", str(same))
    source = source.replace("DATA", f"{seed} + 7 * rank * {same}").replace("SCALE", "2 / 45" if same else "1 / 18")
    return referred(job_server, folder, source.replace("PLANTED", planted), DEEP_REFERENCE.replace("CAST", str(cast)))


@pytest.mark.parametrize("cast", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(2))
def test_a_deep_model_that_is_right_is_never_called_wrong(how, cast, seed, job_server, tmp_path):
    verdict = deep(job_server, tmp_path, how, cast, seed)

    assert verdict.outcome == "right", (verdict.sentence, verdict.reasons)


@pytest.mark.parametrize("cast", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("how", HOW)
def test_negative_control_one_weight_of_it_that_is_wrong_is_named(how, cast, job_server, tmp_path):
    inner = "model.module" if how == "ddp" else "model"
    verdict = deep(job_server, tmp_path, how, cast, 0, f"{inner}.blocks[3].up.weight.grad.mul_(1.3)")

    assert verdict.sentence == "blocks.3.up.weight: the update is 1.30 times that of a single process."


def test_a_gradient_that_is_rounding_alone_is_not_compared(job_server, tmp_path):
    verdict = deep(
        job_server, tmp_path, "ddp", False, 0, "[block.k.bias.grad.mul_(2) for block in model.module.blocks]"
    )

    assert verdict.outcome == "right"
    assert any(note.startswith("6 parameters were not compared, whose gradient is rounding") for note in verdict.notes)


@pytest.mark.parametrize("how", HOW)
def test_an_objective_in_a_finer_type_than_the_job_accuses_nobody(how, job_server, tmp_path):
    made, same = HOW[how]
    source = f"torch.manual_seed(0)\n{DEEP}{made}{TRAIN}".replace("CAST", "True").replace("SAME", str(same))
    source = source.replace("DATA", f"7 * rank * {same}").replace("SCALE", "2 / 45" if same else "1 / 18")

    verdict = referred(job_server, tmp_path, source.replace("PLANTED", "pass"), DEEP_REFERENCE.replace("CAST", "False"))

    assert verdict.outcome in ("right", "cannot tell"), verdict.sentence
