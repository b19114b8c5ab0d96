"""What units weigh is read apart from numbers of the script's own, where it is clear which units there are."""

from __future__ import annotations

import pytest

from audit.capture.watched import watch

pytestmark = pytest.mark.torch

MODEL = """
model = torch.nn.Linear(4, 3)
x, y = torch.randn(2, 3, 4), torch.tensor([[0, 1, 2], [0, 1, 2]])
mask = torch.tensor([[1.0, 1, 0], [1, 1, 0]])
wide = torch.tensor([[1, 0, 1, 0, 0, 0], [0, 1, 1, 1, 0, 1], [0] * 6]).bool()
gain = torch.tensor([[0.7], [-0.4]])
idle = torch.tensor([[0.7], [0.0]])
step = torch.optim.SGD(model.parameters(), lr=0.1)
def logp():
    return model(x).log_softmax(-1).gather(-1, y[..., None])[..., 0]
def ppo(gain=gain, far=0.01):
    now = logp()
    ratio = (now - now.detach() + far).exp()
    return -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
def categorical(logits):
    return torch.distributions.Categorical(logits=logits).log_prob(y)
def with_entropy(all):
    policy = all.gather(-1, y[..., None])[..., 0] * gain * mask
    return -policy.sum() / 4 - 0.01 * (-(all.exp() * all).sum(-1) * mask).sum() / 4
def back(loss):
    loss.backward()
    step.step()
"""

# the loss, and what should be read: the units of each term, and the sum of their weights
TOKENS = {
    "(ppo() * mask).sum() / mask.sum()": [(4, 1.0)],
    "(ppo(idle) * mask).sum() / mask.sum()": [(4, 1.0)],
    "ppo().mean() / 3": [(6, 1 / 3)],
    "ppo(far=1.0).mean()": [(6, 1.0)],
    "ppo().mean() + 0 * model(x).square().sum()": [(6, 1.0)],
    "ppo()[mask.bool()].mean()": [(4, 1.0)],
    "torch.where(mask.bool(), ppo(), 0.0).sum() / torch.tensor([8.0])": [(4, 0.5)],
    "-(logp().masked_fill(mask == 0, 0) * gain).sum() / 4": [(4, 1.0)],
    "-(torch.where(mask == 0, 0, logp()) * idle).sum() / 4": [(4, 1.0)],
    "-(torch.zeros(3, 6).masked_scatter(wide, logp().flatten()) * torch.randn(3, 6)).sum() / 6": [(6, 1.0)],
    "-(logp() * logp().detach().exp() * mask).sum() / mask.sum()": [(4, 1.0)],
    "-(categorical(model(x)) * gain * mask).sum() / mask.sum()": [(4, 1.0)],
    "((ppo() + 0.1 * (logp().exp() - logp() - 1)) * mask).sum() / 4": [(4, 1.0)],
    "with_entropy(model(x).log_softmax(-1))": [(4, 0.01), (4, 1.0)],
    "ppo().mean() - logp()[mask.bool()].mean().expand(2).mean() / 2": [(4, 0.5), (6, 1.0)],
}
# also what the units are
ROWS = {
    "((ppo() * mask).sum(-1) / mask.sum(-1)).mean() / 2": (2, 0.5, "sequence"),
    "-((logp() * mask).sum(-1) * gain[:, 0]).mean()": (2, 1.0, "sequence"),
    "torch.relu(1 - logp().sum(-1)[:1] + logp().sum(-1)[1:]).mean()": (1, 1.0, "example"),
    "-(F.logsigmoid(logp().sum(-1)) - 0.5 * F.logsigmoid(-logp().sum(-1))).mean()": (2, 1.0, None),
}
# units that cannot be told from those without an advantage; numbers of other units in a unit's own; terms beside
LEFT = {
    "-(logp() * (gain * mask)).sum() / mask.sum()": ["LogSoftmax"],
    "ppo(idle).mean()": ["LogSoftmax"],
    "ppo(idle, far=1.0).mean()": ["LogSoftmax"],
    "((logp() * mask).sum(0) * torch.randn(3)).sum()": ["LogSoftmax"],
    "((rows := logp().sum(-1)) - rows.mean()).pow(2).mean()": ["LogSoftmax"],
    "(ppo().sort(0)[0] * mask).sum()": ["Sort"],
    "((2 * (s := model(x)).logsumexp(-1) - s.gather(-1, y[..., None])[..., 0]) * gain).sum()": ["Gather", "Logsumexp"],
    "ppo().mean() + (model(x)[..., 0] ** 2).mean()": ["Addmm", "LogSoftmax"],
    "0 * (ppo() * mask).sum()": ["LogSoftmax"],
    "sum(-row.sum() * g for row, g in zip(logp(), gain[:, 0]))": ["LogSoftmax"],
}


def lines(losses):
    return MODEL + "\n".join(f"back({loss})" for loss in losses)


def test_tokens_are_read_apart_from_their_advantages(job_server, tmp_path):
    seen = watch(job_server, tmp_path, lines(TOKENS))

    assert seen.errors == []
    assert [record.fields["unseen"] for record in seen.of("backward")] == [[]] * len(TOKENS)
    found = [[(one["nonzero"], one["scale"]) for one in record.fields["losses"]] for record in seen.of("backward")]
    assert found == [[(units, pytest.approx(total)) for units, total in terms] for terms in TOKENS.values()]
    assert {(one["function"], one["classes"], one.get("unit")) for one in seen.losses} == {("loss_per_unit", 3, None)}


def test_terms_of_a_loss_are_told_apart_by_the_way_to_their_units(job_server, tmp_path):
    seen = watch(job_server, tmp_path, lines(["with_entropy(model(x).log_softmax(-1))"] * 2))

    places = [[one["place"].rpartition(" ")[2] for one in record.fields["losses"]] for record in seen.of("backward")]
    assert places[0] == places[1] and len(set(places[0])) == 2


def test_what_is_reduced_to_a_number_for_each_row_counts_rows(job_server, tmp_path):
    seen = watch(job_server, tmp_path, lines(ROWS))

    assert seen.errors == []
    assert [record.fields["unseen"] for record in seen.of("backward")] == [[]] * len(ROWS)
    found = [(one["nonzero"], one["scale"], one.get("unit")) for one in seen.losses]
    assert found == [(units, pytest.approx(total), what) for units, total, what in ROWS.values()]


def test_what_only_looks_like_it_stays_unseen(job_server, tmp_path):
    seen = watch(job_server, tmp_path, lines(LEFT))

    assert seen.errors == []
    assert [record.fields["unseen"] for record in seen.of("backward")] == list(LEFT.values())
    assert seen.losses == []


def test_a_loss_that_is_seen_beside_it_is_a_term_of_its_own(job_server, tmp_path):
    seen = watch(job_server, tmp_path, lines(["(ppo() * mask).mean() + F.mse_loss(model(x)[..., 0], mask)"]))

    assert sorted(one["function"] for one in seen.losses) == ["loss_per_unit", "mse_loss"]


def test_what_a_checkpoint_saved_is_left_to_the_job(job_server, tmp_path):
    source = """
from torch.utils.checkpoint import checkpoint
def loss_of(x):
    return (ppo() * mask).sum() / mask.sum()
back(checkpoint(loss_of, x.requires_grad_(), use_reentrant=False))
"""
    seen = watch(job_server, tmp_path, MODEL + source)

    assert (seen.errors, seen.of("backward")[0].fields["unseen"]) == ([], ["LogSoftmax"])


def test_a_second_pass_over_the_same_graph_is_read_once(job_server, tmp_path):
    source = "loss = (ppo() * mask).mean()\nloss.backward(retain_graph=True)\nloss.backward()\nstep.step()"
    seen = watch(job_server, tmp_path, MODEL + source)

    assert [len(record.fields["losses"]) for record in seen.of("backward")] == [1, 1]


def test_a_graph_that_cannot_be_followed_says_nothing_about_it_and_breaks_nothing(job_server, tmp_path):
    source = """
from failuremap.audit.capture.loss import unit_tensors
unit_tensors.find = lambda *_: 1 / 0
back(-logp().mean())
back((ppo() * mask).sum() / mask.sum())
"""
    seen = watch(job_server, tmp_path, MODEL + source)

    assert (seen.errors, [one["function"] for one in seen.losses]) == ([], ["log_softmax"])
    assert [record.fields["unseen"] for record in seen.of("backward")] == [[], ["LogSoftmax"]]
