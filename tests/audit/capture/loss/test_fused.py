"""A loss that computes the logits itself is read from the gradient at its hidden states, where all rows tried fit."""

from __future__ import annotations

import pytest
import torch

from audit.capture.watched import watch
from failuremap.audit.capture.loss.fused import ROWS, Head, weights_of

pytestmark = pytest.mark.torch

MODEL = """
class Fused(torch.autograd.Function):
    turned = whole = False
    factor = 1.0
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets):
        ctx.save_for_backward(hidden, weight, bias, targets)
        losses = F.nll_loss((hidden @ Fused.laid(weight) + bias).log_softmax(-1), targets, reduction="none")
        return losses.sum() if Fused.whole else losses
    @staticmethod
    def laid(weight):
        return weight if Fused.turned else weight.t()
    @staticmethod
    def backward(ctx, gradient):
        hidden, weight, bias, targets = ctx.saved_tensors
        scores = (hidden @ Fused.laid(weight) + bias).softmax(-1)
        scores[torch.arange(len(targets)), targets] -= 1
        scores = scores * gradient.reshape(-1, 1) * Fused.factor
        by_weight = hidden.t() @ scores
        return scores @ Fused.laid(weight).t(), by_weight if Fused.turned else by_weight.t(), scores.sum(0), None
body = torch.nn.Linear(4, 6)
weight, bias = torch.nn.Parameter(torch.randn(9, 6)), torch.nn.Parameter(torch.randn(9))
across = torch.nn.Parameter(torch.randn(6, 9))
x, y = torch.randn(40, 4), torch.randint(0, 9, (40,))
mask = (torch.arange(40) % 4 > 0).float()
step = torch.optim.SGD([*body.parameters(), weight, bias, across], lr=0.1)
def back(loss):
    loss.backward()
    step.step()
def fused(weight=weight):
    return Fused.apply(body(x), weight, bias, y)
"""

# what is set before, the loss, and what should be read: units, and the sum of their weights
READ = {
    "pass; back(fused().mean())": (40, 1.0),
    "pass; back((fused() * mask).sum() / 15)": (30, 2.0),
    "Fused.whole = True; back(fused() / 20); Fused.whole = False": (40, 2.0),
    "Fused.factor = 3.0; back(fused().mean()); Fused.factor = 1.0": (40, 3.0),
    "Fused.turned = True; back(fused(across).mean())": (40, 1.0),
}
LEFT = {
    "(fused() * torch.arange(1, 41)).mean()": ["Fused"],
    "-fused().mean()": ["Fused"],
    "Fused.apply(body(x).bfloat16(), weight.bfloat16(), bias.bfloat16(), y).mean()": ["Fused"],
    "(fused() - 1).square().mean()": ["Fused"],
}


def test_a_fused_head_is_read_from_the_gradient_at_its_hidden_states(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "\n".join(READ))

    assert seen.errors == []
    assert [record.fields["unseen"] for record in seen.of("backward")] == [[]] * len(READ)
    assert [(one["nonzero"], one["scale"]) for one in seen.losses] == [
        (units, pytest.approx(total, rel=1e-4)) for units, total in READ.values()
    ]
    assert {(one["function"], one["classes"], one["hidden_in"]) for one in seen.losses} == {
        ("cross_entropy_at_hidden", 9, "Fused")
    }


def test_what_does_not_fit_stays_unseen(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "\n".join(f"back({loss})" for loss in LEFT))

    assert (seen.errors, [record.fields["unseen"] for record in seen.of("backward")]) == ([], list(LEFT.values()))


def gradient_at_hidden(weights, smoothing=0.0, features=6, dtype=torch.float32):
    """The gradient at hidden states, and the head behind them."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(len(weights), features, generator=generator).to(dtype)
    weight = (torch.randn(9, features, generator=generator) / 4).to(dtype)
    targets = torch.nn.functional.one_hot(torch.randint(0, 9, (len(weights),), generator=generator), 9)
    rows = (hidden @ weight.t()).softmax(1) - (1 - smoothing) * targets - smoothing / 9
    return (rows * torch.tensor(weights)[:, None]).to(dtype) @ weight, Head(0, hidden, weight, None, None, dtype)


def test_rows_that_are_masked_have_no_weight_and_the_others_one():
    gradient, head = gradient_at_hidden([0.5, 0.0, 0.5, 0.5])

    assert (
        weights_of(gradient, [torch.tensor(1.0)], head).tolist()
        == [pytest.approx(0.5, rel=1e-4), 0] + [pytest.approx(0.5, rel=1e-4)] * 2
    )


@pytest.mark.parametrize("weights", [[0.5] * 3 + [0.505], [-0.5] * 4, [0.0] * 4], ids=["uneven", "turned", "nothing"])
def test_other_weights_give_no_number(weights):
    gradient, head = gradient_at_hidden(weights)

    assert weights_of(gradient, [], head) is None


def test_smoothed_labels_and_other_heads_do_not_fit():
    gradient, head = gradient_at_hidden([0.5] * 4, smoothing=0.01)
    other = gradient_at_hidden([0.5] * 5)[1]

    assert weights_of(gradient, [], head) is None
    gradient = gradient_at_hidden([0.5] * 4)[0]
    assert weights_of(gradient, [], head) is not None
    assert weights_of(gradient, [], head._replace(weight=other.weight)) is None


def test_of_rows_that_are_not_tried_the_gradient_from_above_says_whether_they_are_alike():
    gradient, head = gradient_at_hidden([0.5] * (ROWS * 4))
    from_above = torch.ones(ROWS * 4)
    assert weights_of(gradient, [from_above], head) is not None
    from_above[1] = 2.0

    assert weights_of(gradient, [from_above], head) is None


# ---- in half precision

ONE, LIVE, ROWS_IN_ALL = 0.7, 15, 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("expected", [ONE, ONE / LIVE, ONE / ROWS_IN_ALL], ids=["sum", "mean", "mean-over-all"])
def test_in_half_precision_the_weight_is_the_one_that_what_arrived_explains(expected, dtype):
    weights = [0.0 if at % 4 == 0 else expected for at in range(ROWS_IN_ALL)]
    gradient, head = gradient_at_hidden(weights, features=16, dtype=dtype)

    assert weights_of(gradient, [torch.tensor(ONE)], head).tolist() == [pytest.approx(w, rel=1e-6) for w in weights]


@pytest.mark.parametrize(
    "given",
    [
        {"weights": [ONE * 1.05] * 20},
        {"weights": [ONE] * 10 + [ONE * 1.1] * 10},
        {"weights": [ONE] * 20, "smoothing": 0.1},
        {"weights": [ONE] * 20, "features": 6},
        {"weights": [ONE] * 3},
    ],
    ids=["another-weight", "uneven", "smoothed", "few-features", "few-rows"],
)
def test_in_half_precision_what_nothing_explains_gives_no_number(given):
    gradient, head = gradient_at_hidden(**{"features": 16, **given}, dtype=torch.bfloat16)

    assert weights_of(gradient, [torch.tensor(ONE)], head) is None
