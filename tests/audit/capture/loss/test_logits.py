"""A cross entropy whose inside is hidden is read from the gradient at its logits, where that is what it should be."""

from __future__ import annotations

import pytest
import torch

from audit.capture.watched import watch
from failuremap.audit.capture.loss.logits import weights_of, weights_of_part

pytestmark = pytest.mark.torch

MODEL = """
class Kept(torch.autograd.Function):
    factor = 1.0
    @staticmethod
    def forward(ctx, scores, targets):
        kept = scores if LOGITS else scores.softmax(-1)
        ctx.save_for_backward(kept, targets)
        return F.nll_loss(scores.log_softmax(-1), targets, reduction="none")
    @staticmethod
    def backward(ctx, gradient):
        kept, targets = ctx.saved_tensors
        found = kept.softmax(-1) if LOGITS else kept
        found[torch.arange(len(targets)), targets] -= 1  # in place, as fused losses do it
        return found * gradient[:, None] * Kept.factor, None
LOGITS = False
model = torch.nn.Linear(4, 5)
x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 4, 2])
mask = torch.tensor([1.0, 1, 0, 1, 1, 0])
step = torch.optim.SGD(model.parameters(), lr=0.1)
def back(loss):
    loss.backward()
    step.step()
"""

# the loss, and what should be read: units, the sum of their weights, and in what the loss is hidden
READ = {
    "Kept.apply(model(x), y).mean()": (6, 1.0, "Kept"),
    "(Kept.apply(model(x), y) * mask).sum() / 8": (4, 0.5, "Kept"),
    "-(model(x).softmax(1)[torch.arange(6), y].log() * mask).sum()": (4, 4.0, "Softmax"),
    "-model(x).softmax(1).gather(1, y[:, None]).log().mean()": (6, 1.0, "Softmax"),
    "-model(x).T.softmax(0).gather(0, y[None]).log().mean()": (6, 1.0, "Softmax"),
}
# units with weights of the script's own, gradients that are not those of a cross entropy, two classes
LEFT = {
    "(Kept.apply(model(x), y) * torch.arange(1, 7)).mean()": ["Kept"],
    "-Kept.apply(model(x), y).mean()": ["Kept"],
    "Kept.apply(model(x) / 2, y).mean() + (model(x).softmax(1) ** 2).mean()": ["Softmax"],
    "-model(x).softmax(1)[torch.arange(6), y].mean()": ["Softmax"],
    "((p := model(x).softmax(1)[torch.arange(6), y]) * p.log()).mean()": ["Softmax"],
    "-(model(x).softmax(1) * x.new_ones(5).softmax(0)).log().sum()": ["Softmax"],
    "-model(x)[:, :2].softmax(1)[:, 0].log().mean()": ["Softmax"],
}


def test_a_hidden_cross_entropy_is_read(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "\n".join(f"back({loss})" for loss in READ))

    assert seen.errors == []
    assert [record.fields["unseen"] for record in seen.of("backward")] == [[]] * len(READ)
    found = [(loss["nonzero"], loss["scale"], loss["hidden_in"]) for loss in seen.losses]
    assert found == [(units, pytest.approx(total), where) for units, total, where in READ.values()]
    assert {(loss["function"], loss["classes"]) for loss in seen.losses} == {("cross_entropy_at_logits", 5)}


def test_logits_do_as_well_as_their_softmax(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "LOGITS = True\nback(Kept.apply(model(x), y).mean())")

    assert [(loss["nonzero"], loss["scale"]) for loss in seen.losses] == [(6, pytest.approx(1))]


def test_what_has_another_gradient_stays_unseen(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "\n".join(f"back({loss})" for loss in LEFT))

    assert seen.errors == []
    assert [record.fields["unseen"] for record in seen.of("backward")] == list(LEFT.values())


def test_the_factor_of_a_hidden_backward_is_in_the_weights(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "Kept.factor = 2.0\nback(Kept.apply(model(x), y).mean())")

    assert [loss["scale"] for loss in seen.losses] == [pytest.approx(2)]


PART = """
import torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
class Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, targets, calls):
        softmax = torch.cat([scores, torch.zeros(len(scores), 4)], 1).softmax(-1)
        if calls:
            dist.all_reduce(softmax.sum(-1))
        ctx.save_for_backward(softmax[:, :5].clone(), targets)
        return -softmax.gather(1, targets[:, None])[:, 0].log()
    @staticmethod
    def backward(ctx, gradient):
        softmax, targets = ctx.saved_tensors
        here = targets < 5
        softmax[here, targets[here]] -= 1
        return softmax * gradient[:, None], None, None
far = torch.tensor([0, 8, 2, 7, 4, 6])
"""


def test_a_part_of_the_classes_is_read_where_the_function_has_called_a_collective(job_server, tmp_path):
    losses = ["Part.apply(model(x), far, True).mean()", "Part.apply(model(x), far, False).mean()"]
    seen = watch(job_server, tmp_path, MODEL + PART + "\n".join(f"back({loss})" for loss in losses))

    assert (seen.errors, [record.fields["unseen"] for record in seen.of("backward")]) == ([], [[], ["Part"]])
    assert [(one["nonzero"], one["scale"], one["hidden_in"]) for one in seen.losses] == [(6, pytest.approx(1), "Part")]


def test_what_a_checkpoint_saved_is_left_to_the_job_and_what_went_in_is_read(job_server, tmp_path):
    source = """
from torch.utils.checkpoint import checkpoint
back(checkpoint(lambda x: Kept.apply(model(x), y).mean(), x.requires_grad_(), use_reentrant=False))
"""
    seen = watch(job_server, tmp_path, MODEL + source)

    assert seen.errors == []
    assert [(one["nonzero"], one["scale"], one["hidden_in"]) for one in seen.losses] == [(6, pytest.approx(1), "Kept")]


def test_a_graph_that_is_walked_twice_is_read_once(job_server, tmp_path):
    source = "loss = Kept.apply(model(x), y).mean()\nLOGITS = True\nloss = Kept.apply(model(x), y).mean()\n"
    source += "loss.backward(retain_graph=True)\nloss.backward()\nstep.step()"
    seen = watch(job_server, tmp_path, MODEL + source)

    assert [len(record.fields["losses"]) for record in seen.of("backward")] == [1, 1]


# ---- the fit itself


def gradient_and_softmax(weights, scores=None, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(len(weights), 7, generator=generator) if scores is None else scores
    probabilities = scores.softmax(1)
    targets = torch.randint(0, 7, (len(weights),), generator=generator)
    rows = probabilities - torch.nn.functional.one_hot(targets, 7)
    return (rows * torch.tensor(weights)[:, None]).to(dtype), probabilities


def test_equal_weights_are_found_whatever_the_targets_are():
    found = weights_of(*gradient_and_softmax([0.25, 0.0, 0.25, 0.25]))

    assert found.tolist() == [pytest.approx(0.25), 0, pytest.approx(0.25), pytest.approx(0.25)]


def test_bfloat16_gradients_are_read_within_their_rounding():
    found = weights_of(*gradient_and_softmax([0.25] * 8, dtype=torch.bfloat16))

    assert found.sum().item() == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_smoothed_labels_are_no_onehot_in_half_precision_either(dtype):
    rows, probabilities = gradient_and_softmax([1.0] * 8)
    smoothed = 0.9 * rows + 0.1 * (probabilities - 1 / 7)

    assert weights_of(rows.to(dtype), probabilities) is not None
    assert weights_of(smoothed.to(dtype), probabilities) is None


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param(lambda rows: rows * torch.tensor([1.0, 1.0, 1.01, 1.0])[:, None], id="one-row-heavier"),
        pytest.param(lambda rows: rows + 1e-3, id="shifted"),
        pytest.param(lambda rows: -rows, id="turned"),
        pytest.param(lambda rows: rows.flip(1), id="of-other-classes"),
        pytest.param(lambda rows: rows * 0, id="nothing"),
    ],
)
def test_a_gradient_that_does_not_fit_gives_no_number(spoilt):
    rows, probabilities = gradient_and_softmax([0.25] * 4)
    assert weights_of(rows, probabilities) is not None

    assert weights_of(spoilt(rows), probabilities) is None


def test_a_row_without_gradient_whose_target_is_about_certain_may_count_or_not():
    scores = torch.randn(3, 7, generator=torch.Generator().manual_seed(1))
    scores[2, 3] = 40.0
    rows, probabilities = gradient_and_softmax([0.5, 0.5, 0.0], scores)

    assert weights_of(rows, probabilities) is None


def test_rows_that_are_too_near_to_their_targets_say_nothing():
    scores = torch.zeros(2, 7)
    scores[:, 3] = 14.0
    probabilities = scores.softmax(1)
    rows = probabilities - torch.nn.functional.one_hot(torch.tensor([3, 3]), 7)

    assert weights_of(rows, probabilities) is None


def part_of(weights, targets, classes=4):
    """The gradient at the first classes of seven, and their probabilities."""
    rows, probabilities = gradient_and_softmax(weights)
    rows = probabilities * torch.tensor(weights)[:, None]
    rows[torch.arange(len(targets)), targets] -= torch.tensor(weights)
    return rows[:, :classes], probabilities[:, :classes]


@pytest.mark.parametrize("targets", [[0, 5, 3, 6], [6, 5, 4, 6], [0, 1, 2, 3]], ids=["some", "elsewhere", "here"])
def test_a_part_of_the_classes_gives_the_weights_wherever_the_targets_are(targets):
    found = weights_of_part(*part_of([0.25, 0.25, 0.0, 0.25], targets))

    assert found.tolist() == [pytest.approx(0.25), pytest.approx(0.25), 0, pytest.approx(0.25)]


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param(lambda rows, kept: (rows * torch.tensor([1.0, 1.0, 1.01, 1.0])[:, None], kept), id="one-heavier"),
        pytest.param(lambda rows, kept: (rows + 1e-3, kept), id="shifted"),
        pytest.param(lambda rows, kept: (-rows, kept), id="turned"),
        pytest.param(lambda rows, kept: (rows, kept * 3), id="no-probabilities"),
        pytest.param(lambda rows, kept: (rows, kept - 0.1), id="negative"),
    ],
)
def test_a_gradient_of_a_part_that_does_not_fit_gives_no_number(spoilt):
    rows, probabilities = part_of([0.25] * 4, [0, 5, 3, 6])

    assert weights_of_part(*spoilt(rows, probabilities)) is None
