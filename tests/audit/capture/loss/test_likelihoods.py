"""A loss written by hand is read at its log-probabilities, and only where its units all weigh the same."""

from __future__ import annotations

import pytest

from audit.capture.watched import watch

pytestmark = pytest.mark.torch

MODEL = """
model = torch.nn.Linear(4, 3)
x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
mask = torch.tensor([1.0, 1, 0, 1, 1, 0])
step = torch.optim.SGD(model.parameters(), lr=0.1)
def back(loss):
    loss.backward()
    step.step()
"""

# the loss, and what should be read: its function, units, and the sum of their weights
EQUAL = {
    "-model(x).log_softmax(1).gather(1, y[:, None]).mean()": ("log_softmax", 6, 1.0),
    "-model(x).log_softmax(1)[torch.arange(6), y].sum() / 24": ("log_softmax", 6, 0.25),
    "-(model(x).log_softmax(1).gather(1, y[:, None])[:, 0] * mask).sum() / mask.sum()": ("log_softmax", 4, 1.0),
    "-(model(x).log_softmax(1) * (0.7 * F.one_hot(y, 3) + 0.1)).sum(1).mean()": ("log_softmax", 6, 1.0),
    "-(model(x).log_softmax(1) * torch.rand(6, 3).softmax(1)).sum()": ("log_softmax", 6, 6.0),
    "-model(x).T.log_softmax(0).gather(0, y[None]).mean()": ("log_softmax", 6, 1.0),
    "-(lambda s: s.gather(1, y[:, None])[:, 0] - s.logsumexp(1))(model(x)).mean()": ("log_softmax", 6, 1.0),
    "-F.logsigmoid(model(x)[:, 0] - model(x)[:, 1]).mean()": ("logsigmoid", 6, 1.0),
    "F.softplus(-model(x)[:, 0]).sum() * 0.5": ("logsigmoid", 6, 3.0),
}
# units with weights of the script's own, signs that differ, a normaliser that is not that of the chosen scores
UNEVEN = {
    "-(model(x).log_softmax(1).gather(1, y[:, None])[:, 0] * (mask * torch.arange(1, 7))).mean()": ["LogSoftmax"],
    "0.7 * model(x).log_softmax(1).gather(1, y[:, None]).mean()": ["LogSoftmax"],
    "-model(x).log_softmax(1).mean() - 2 * F.logsigmoid(model(x)).mean()": ["LogSigmoid", "LogSoftmax"],
    "(lambda s: 2 * s.logsumexp(1) - s.gather(1, y[:, None])[:, 0])(model(x)).mean()": ["Gather", "Logsumexp"],
    "model(x).logsumexp(1).mean()": ["Logsumexp"],
    "model(x).gather(1, y[:, None]).mean()": ["Gather"],
    "F.cross_entropy(model(x), y) + (model(x).softmax(1).log().gather(1, y[:, None]) ** 2).mean()": ["Softmax"],
}


def told(seen):
    return [(r.fields["losses"], r.fields["unseen"]) for r in seen.of("backward")]


def test_units_of_equal_weight_are_read(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "\n".join(f"back({loss})" for loss in EQUAL))

    assert seen.errors == []
    assert [unseen for _, unseen in told(seen)] == [[]] * len(EQUAL)
    found = [
        (losses[0]["function"], sum(loss["nonzero"] for loss in losses), sum(loss["scale"] for loss in losses))
        for losses, _ in told(seen)
    ]
    assert found == [(function, units, pytest.approx(total)) for function, units, total in EQUAL.values()]
    assert {loss.get("classes") for loss in seen.losses} == {3, None}
    assert [losses[0].get("times", 1) for losses, _ in told(seen)] == [*[1] * (len(EQUAL) - 1), 0.5]
    assert all(loss["site"].startswith("train.py:") for loss in seen.losses)


def test_where_the_units_weigh_differently_nothing_is_concluded(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "\n".join(f"back({loss})" for loss in UNEVEN))

    assert seen.errors == []
    assert [unseen for _, unseen in told(seen)] == list(UNEVEN.values())
    assert {loss["function"] for loss in seen.losses} == {"cross_entropy"}


def test_sequences_are_counted_where_the_units_stand_in_a_table(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL + "back(-model(x.view(2, 3, 4)).log_softmax(2).gather(2, y.view(2, 3, 1)).mean())",
    )

    (loss,) = seen.losses
    assert (loss["rows"], loss["row_smallest"], loss["row_largest"]) == (2, pytest.approx(0.5), pytest.approx(0.5))


def test_bfloat16_rounds_the_weights_and_they_are_still_alike(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL + "back(-(model.bfloat16()(x.bfloat16()).log_softmax(1) * (0.7 * F.one_hot(y, 3) + 0.1)).sum(1).mean())",
    )

    (loss,) = seen.losses
    assert (loss["nonzero"], loss["scale"]) == (6, pytest.approx(1, abs=0.02))


@pytest.mark.parametrize("mark", ["failuremap.count(6)", "failuremap.count(6, loss)", "failuremap.unit_losses(parts)"])
def test_what_the_script_says_itself_goes_first(mark, job_server, tmp_path):
    source = f"""
import failuremap
parts = -model(x).log_softmax(1).gather(1, y[:, None])
loss = parts.mean()
{mark}
back(loss if "unit_losses" not in {mark!r} else parts.mean())
"""
    seen = watch(job_server, tmp_path, MODEL + source)

    assert [loss["function"] for loss in seen.losses] == [mark.removeprefix("failuremap.").partition("(")[0]]


def test_a_second_pass_over_the_same_graph_is_read_once(job_server, tmp_path):
    source = """
loss = -model(x).log_softmax(1).gather(1, y[:, None]).mean()
loss.backward(retain_graph=True)
loss.backward()
step.step()
"""
    seen = watch(job_server, tmp_path, MODEL + source)

    assert [len(losses) for losses, _ in told(seen)] == [1, 1]


def test_a_checkpoint_hands_out_what_was_saved_to_the_job_alone(job_server, tmp_path):
    source = """
from torch.utils.checkpoint import checkpoint
def loss_of(x):
    scores = model(x)
    return (scores.logsumexp(1) - scores.gather(1, y[:, None])[:, 0]).mean()
back(checkpoint(loss_of, x.requires_grad_(), use_reentrant=False))
"""
    seen = watch(job_server, tmp_path, MODEL + source)

    (loss,) = seen.losses
    assert (loss["function"], loss["nonzero"], loss["classes"]) == ("log_softmax", 6, 3)
