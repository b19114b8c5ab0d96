"""A loss that computes its gradient in forward is read from rows that were kept before it ran."""

from __future__ import annotations

import pytest

from audit.capture.watched import watch

pytestmark = pytest.mark.torch

MODEL = """
from torch.utils.checkpoint import checkpoint
class Ahead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, factor=1.0):
        with torch.enable_grad():
            given = [one.detach().requires_grad_() for one in (hidden, weight, bias)]
            losses = F.cross_entropy((given[0] @ given[1].t() + given[2]).float(), targets, reduction="none") * factor
            ctx.save_for_backward(*torch.autograd.grad(losses.sum(), given))
        return losses.sum().detach()
    @staticmethod
    def backward(ctx, gradient):
        return *(one * gradient for one in ctx.saved_tensors), None, None
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *given):
        ctx.save_for_backward(*given)
        return F.cross_entropy(given[0] @ given[1].t() + given[2], given[3], reduction="sum")
    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            hidden, weight, bias = [one.detach().requires_grad_() for one in ctx.saved_tensors[:3]]
            loss = F.cross_entropy(hidden @ weight.t() + bias, ctx.saved_tensors[3], reduction="sum")
            found = torch.autograd.grad(loss, (hidden, weight, bias))
        return *(one * gradient for one in found), None
class Over(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, targets, factor):
        probabilities, live = scores.softmax(1), targets >= 0
        loss = F.cross_entropy(scores, targets, reduction="sum")
        scores.detach().copy_((probabilities - F.one_hot(targets.clamp(min=0), 9)) * live[:, None] * factor)
        ctx.save_for_backward(scores.detach())
        return loss
    @staticmethod
    def backward(ctx, gradient):
        return ctx.saved_tensors[0] * gradient, None, None
body = torch.nn.Linear(4, 8)
weight, bias = torch.nn.Parameter(torch.randn(9, 8) / 4), torch.nn.Parameter(torch.randn(9))
x, y = torch.randn(40, 4), torch.randint(0, 9, (40,))
y[::4] = -100
rising = torch.linspace(1, 2, 40)
step = torch.optim.SGD([*body.parameters(), weight, bias], lr=0.1)
def back(loss):
    loss.backward()
    step.step()
def ahead(factor=1.0, kind=torch.float32):
    return Ahead.apply(body(x).to(kind), weight.to(kind), bias.to(kind), y, factor)
def over(factor=1.0):
    return Over.apply(body(x) @ weight.t() + bias, y, factor)
"""
# the loss, and the sum of the weights that should be read of its 30 units
READ = {
    "ahead() / 30": 1.0,
    "ahead(2.0) / 30": 2.0,
    "ahead(kind=torch.bfloat16) / 60": 0.5,
    "checkpoint(ahead, use_reentrant=False) / 30": 1.0,
    "checkpoint(lambda _: ahead(), x.requires_grad_(), use_reentrant=True) / 30": 1.0,
    "over() / 30": 1.0,
    # what it differentiates of its own is no loss of the job
    "Again.apply(body(x), weight, bias, y) / 60": 0.5,
}
LEFT = {
    "ahead(rising)": ["Ahead"],
    "ahead(2.0, torch.bfloat16)": ["Ahead"],
    "over(rising[:, None])": ["Over"],
    "-over()": ["Over"],
}


def test_what_computes_its_gradient_ahead_is_read_from_rows_that_went_in(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "\n".join(f"back({loss})" for loss in READ))

    assert seen.errors == []
    found = [(one["nonzero"], one["scale"]) for one in seen.losses]
    assert found == [(30, pytest.approx(total, rel=1e-4)) for total in READ.values()]


def test_what_does_not_fit_stays_unseen(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "\n".join(f"back({loss})" for loss in LEFT))
    unseen = [record.fields["unseen"] for record in seen.of("backward")]

    assert (seen.errors, [names for names in unseen if names]) == ([], list(LEFT.values()))
