"""What a reentrant checkpoint computes again in backward is seen there, if it is the end of a loss."""

from __future__ import annotations

import pytest

from audit.capture.watched import watch

pytestmark = pytest.mark.torch

MODEL = """
from torch.utils.checkpoint import checkpoint
model = torch.nn.Linear(4, 3)
x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
x.requires_grad_()
step = torch.optim.SGD(model.parameters(), lr=0.1)
def again(function, *given):
    return checkpoint(function, *given, use_reentrant=True)
def ce(x, y):
    return F.cross_entropy(model(x), y, reduction="sum")
def by_hand(x, y):
    return -model(x).log_softmax(1).gather(1, y[:, None]).sum()
def unknown(x, y):
    return (model(x) - 1).square().mean()
def back(loss):
    loss.backward()
    step.step()
"""

# the loss, and what should be read in it: the units of each call, and the gradient that reached it
SEEN = {
    "again(ce, x, y) / 6": [(6, 1 / 6)],
    "(again(ce, x[:2], y[:2]) + again(ce, x[2:], y[2:])) / 6": [(2, 1 / 6), (4, 1 / 6)],
    "again(by_hand, x, y) / 6": [(6, 1.0)],
    "F.cross_entropy(again(model, x), y)": [(6, 1.0)],
}
# of two the second is seen, or the first; one inside another
LEFT = {
    "again(lambda x, y: again(ce, x, y), x, y)": ["CheckpointFunction"],
    "again(unknown, x, y)": ["CheckpointFunction"],
    "again(ce, x, y) + again(unknown, x, y)": ["CheckpointFunction"],
    "again(unknown, x, y) + again(ce, x, y)": ["CheckpointFunction"],
    "again(lambda x: model(x), x).square().mean()": ["CheckpointFunction"],
}


def lines(losses):
    return MODEL + "\n".join(f"back({loss})" for loss in losses)


def test_a_loss_is_seen_in_the_inner_pass(job_server, tmp_path):
    seen = watch(job_server, tmp_path, lines(SEEN))

    assert seen.errors == []
    assert [record.fields["unseen"] for record in seen.of("backward")] == [[]] * len(SEEN)
    found = [sorted((one["count"], one["scale"]) for one in record.fields["losses"]) for record in seen.of("backward")]
    assert found == [[(units, pytest.approx(scale)) for units, scale in of] for of in SEEN.values()]


def test_what_is_unknown_inside_stays_unseen(job_server, tmp_path):
    seen = watch(job_server, tmp_path, lines(LEFT))

    assert (seen.errors, [record.fields["unseen"] for record in seen.of("backward")]) == ([], list(LEFT.values()))


def test_what_the_script_counts_is_not_read_inside(job_server, tmp_path):
    source = "import failuremap\nfailuremap.count(6)\nback(again(by_hand, x, y) / 6)"
    seen = watch(job_server, tmp_path, MODEL + source)

    assert seen.losses == []
