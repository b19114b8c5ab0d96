"""Collectives with a wrong backward, beside one process: found, named, and told apart from sums that are wrong."""

from __future__ import annotations

import pytest

from audit.referring import names, referred
from audit.test_reference_jobs import TENSOR_PARALLEL, WHOLE
from audit.test_reference_more_jobs import GATHERED, SPLIT

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TOWERS = """
from torch import nn
import torch.nn.functional as F
class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.text, self.image = nn.Linear(12, 8), nn.Linear(9, 8)
    def forward(self, a, b):
        return F.normalize(self.text(a), dim=-1), F.normalize(self.image(b), dim=-1)
"""
CONTRASTIVE = (
    TOWERS
    + """
def gathered(tensor):
    found = [torch.empty_like(tensor) for _ in range(world_size)]
    dist.all_gather(found, tensor.contiguous())
    return found

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor): return torch.cat(gathered(tensor))
    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        BACKWARD
        return FACTOR * gradient.chunk(world_size)[rank]

def unseen(tensor):
    found = gathered(tensor)
    found[rank] = tensor
    return torch.cat(found)

torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(Towers())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(10 + rank)
for _ in range(3):
    optimizer.zero_grad()
    text, image = model(torch.randn(6, 12), torch.randn(6, 9))
    LOSS.backward()
    optimizer.step()
"""
)
ONE_BATCH = (
    "import torch"
    + TOWERS
    + """
build, rows_interact = Towers, True
def gather(batches):
    return [batch.args for batch in batches]
def objective(model, batch):
    text, image = (torch.cat(parts) for parts in zip(*[model(*args) for args in batch]))
    return F.cross_entropy(3 * text @ image.T, torch.arange(len(text)), reduction="sum"), len(text)
"""
)
OWN_ROWS = "F.cross_entropy(3 * text @ Gather.apply(image).T, torch.arange(6) + 6 * rank)"
ALL_ROWS = "F.cross_entropy(3 * Gather.apply(text) @ Gather.apply(image).T, torch.arange(12))"
ADDED = "dist.all_reduce(gradient)"


def contrastive(loss=OWN_ROWS, backward=ADDED, factor="1"):
    """A job whose loss takes the rows of all ranks."""
    return CONTRASTIVE.replace("LOSS", loss).replace("BACKWARD", backward).replace("FACTOR", factor)


@pytest.mark.parametrize("loss", [OWN_ROWS, ALL_ROWS], ids=["own rows", "all rows"])
def test_a_gather_whose_backward_adds_up_is_right(loss, job_server, tmp_path):
    assert referred(job_server, tmp_path, contrastive(loss), ONE_BATCH).outcome == "right"


@pytest.mark.parametrize(
    ("how", "sentence", "named"),
    [
        (
            {"backward": "pass"},
            "The updates of 2 of 4 parameters differ from those of a single process: image.",
            "wrong-backward-scale",
        ),
        ({"factor": "2"}, "2 parameters get 2.00 times the update of a single process: image.", "wrong-backward-scale"),
        (
            {"loss": ALL_ROWS, "factor": "2"},
            "The update is 2.00 times that of a single process, on all parameters.",
            "wrong-backward-scale",
        ),
        ({"loss": ALL_ROWS, "backward": "pass"}, "Each rank has the part of one loss's", "gathered-part-detached"),
        (
            {"loss": OWN_ROWS.replace("Gather.apply", "unseen")},
            "The updates of 2 of 4 parameters differ from those of a single process: image.",
            "gathered-part-detached",
        ),
    ],
    ids=["not added up", "twice", "twice, all rows", "not added up, all rows", "unseen"],
)
def test_a_gather_whose_backward_is_wrong_is_named(how, sentence, named, job_server, tmp_path):
    verdict = referred(job_server, tmp_path, contrastive(**how), ONE_BATCH)

    assert (verdict.outcome, names(verdict)) == ("wrong", [named])
    assert verdict.sentence.startswith(sentence)


# without the way around the split layer, so that the ranks' gradients before it are parts and nothing else
PARTS, WHOLE_PARTS = TENSOR_PARALLEL.replace("hidden + Reduce", "Reduce"), WHOLE.replace("hidden + self", "self")
STEP = "    optimizer.step()"
AFTER = "    dist.all_reduce(model.embed.weight.grad)\n"
HALVED = AFTER + "    model.embed.weight.grad /= world_size\n"


@pytest.mark.parametrize(
    ("backward", "after", "outcome", "named"),
    [
        ("total(gradient)", "", "right", []),
        ("gradient", AFTER, "right", []),
        ("gradient", "", "wrong", ["partials-not-reduced"]),
        ("gradient", HALVED, "wrong", ["partials-averaged"]),
        ("total(gradient) / world_size", "", "wrong", ["wrong-backward-scale"]),
        ("total(gradient)", "    model.embed.weight.grad *= world_size\n", "wrong", []),
    ],
    ids=["right", "added up later", "not added up", "averaged later", "averaged in backward", "multiplied later"],
)
def test_what_backward_gives_is_told_apart_from_how_it_is_added_up(
    backward, after, outcome, named, job_server, tmp_path
):
    source = PARTS.replace("BACKWARD", backward).replace(STEP, after + STEP)
    verdict = referred(job_server, tmp_path, source, WHOLE_PARTS)

    assert (verdict.outcome, names(verdict)) == (outcome, named)


def test_parts_of_a_sequence_averaged_on_some_parameters_are_named(job_server, tmp_path):
    averaged = "            parameter.grad /= world_size if 'head' in name else 1\n"
    before, sums, rest = SPLIT.partition("            dist.all_reduce(parameter.grad)\n")
    verdict = referred(job_server, tmp_path, "LEFT_OUT = ''\n" + before + sums + averaged + rest, GATHERED)

    assert (verdict.outcome, names(verdict)) == ("wrong", ["partials-averaged"])
    assert verdict.sentence == "2 parameters get 0.50 times the update of a single process: head.bias, head.weight."
    assert verdict.findings[0].promised == "sum over all tokens"
