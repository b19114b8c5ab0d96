"""Loss functions of torch: how many units each call counted, and the scale that backward sent into it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from audit.capture.watched import run, watch
from failuremap.audit.steps.story import Backward
from failuremap.audit.weighing.weigh import read_losses

pytestmark = pytest.mark.torch

HEAD = """
model = torch.nn.Linear(4, 4)
x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, -100, 1])
t = torch.rand(6, 4)
bits = (t > 0.5).float()
signs = bits * 2 - 1
weight = torch.tensor([1.0, 2.0, 0.5, 1.0])
one = torch.randn(6, 4)
step = torch.optim.SGD(model.parameters(), lr=0.0)

def back(loss):
    loss.backward()
    step.step()
    step.zero_grad()
"""

# the line in the script -> units, the sum of the units' weights in the loss
CALLS = {
    "back(F.cross_entropy(model(x), y))": (5, 1.0),
    "back(F.cross_entropy(model(x), y) / 4)": (5, 0.25),
    "back(F.cross_entropy(model(x), y, reduction='sum') / 10)": (5, 0.5),
    "back(F.cross_entropy(model(x), y.clamp(0), reduction='none').sum() / 20)": (6, 0.3),
    "back(F.cross_entropy(model(x), y.clamp(0), ignore_index=1))": (4, 1.0),
    "back(F.cross_entropy(model(x), y.clamp(0), ignore_index=0, label_smoothing=0.1))": (4, 1.0),
    "back(F.cross_entropy(model(x), t.softmax(1)))": (6, 1.0),
    "back(F.cross_entropy(model(x)[0], y[0]))": (1, 1.0),
    "back(F.cross_entropy(model(x).T[None], y[None]))": (5, 1.0),
    "back(torch.nn.CrossEntropyLoss()(model(x), y))": (5, 1.0),
    "back(F.nll_loss(model(x).log_softmax(1), y))": (5, 1.0),
    "back(F.mse_loss(model(x), t))": (24, 1.0),
    "back(F.mse_loss(model(x), t, reduction='sum') * 2)": (24, 48.0),
    "back(F.l1_loss(model(x), t))": (24, 1.0),
    "back(F.smooth_l1_loss(model(x), t))": (24, 1.0),
    "back(F.huber_loss(model(x), t))": (24, 1.0),
    "back(F.binary_cross_entropy(model(x).sigmoid(), bits))": (24, 1.0),
    "back(F.binary_cross_entropy_with_logits(model(x), bits))": (24, 1.0),
    "back(F.kl_div(model(x).log_softmax(1), t.softmax(1), reduction='batchmean'))": (6, 1.0),
    "back(F.kl_div(model(x).log_softmax(1), t.softmax(1), reduction='sum'))": (24, 24.0),
    "back(F.gaussian_nll_loss(model(x), t, torch.ones(6, 4)))": (24, 1.0),
    "back(F.poisson_nll_loss(model(x), t))": (24, 1.0),
    "back(F.soft_margin_loss(model(x), signs))": (24, 1.0),
    "back(F.hinge_embedding_loss(model(x), signs))": (24, 1.0),
    "back(F.margin_ranking_loss(model(x), t, signs))": (24, 1.0),
    "back(F.multi_margin_loss(model(x), y.clamp(0)))": (6, 1.0),
    "back(F.multilabel_soft_margin_loss(model(x), bits))": (6, 1.0),
    "back(F.cosine_embedding_loss(model(x), one, signs[:, 0]))": (6, 1.0),
    "back(F.triplet_margin_loss(model(x), one, t))": (6, 1.0),
    "back(F.ctc_loss(model(x)[:, None].log_softmax(2), torch.tensor([[1, 2]]), (6,), (2,)))": (1, 1.0),
}


@pytest.fixture(scope="module")
def seen(job_server, tmp_path_factory):
    """All calls, each a step of its own, in one job."""
    return watch(job_server, tmp_path_factory.mktemp("losses"), HEAD + "\n".join(CALLS))


def test_every_call_is_one_loss_and_no_error(seen):
    assert [len(record.fields["losses"]) for record in seen.of("backward")] == [1] * len(CALLS)
    assert seen.errors == []


@pytest.mark.parametrize("place", range(len(CALLS)), ids=list(CALLS))
def test_a_call_counts_its_units_and_what_they_weigh(place, seen):
    units, total = list(CALLS.values())[place]
    backward = Backward(0, "backward", [], {}, [seen.losses[place]])

    ((term,),) = read_losses([backward], None).alternatives

    assert (term.counts_K.tolist(), term.totals_K.tolist()) == (pytest.approx([units]), pytest.approx([total]))


@pytest.mark.parametrize("place", range(len(CALLS)), ids=list(CALLS))
def test_nothing_is_unseen_behind_a_call(place, seen):
    assert seen.of("backward")[place].fields["unseen"] == []


def test_a_call_says_its_function_and_line(seen):
    first = HEAD.count("\n") + 5  # below the lines that import torch

    sites = [loss["site"] for loss in seen.losses]
    names = [re.findall(r"F\.(\w+)\(|CrossEntropyLoss", call)[0] or "cross_entropy" for call in CALLS]

    assert {site.split(":")[0] for site in sites} == {"train.py"}
    numbers = [int(site.split(":")[1]) for site in sites]
    assert numbers == list(range(numbers[0], numbers[0] + len(CALLS)))
    assert numbers[0] == first
    assert [loss["function"] for loss in seen.losses] == names


def test_class_weights_are_summed(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        HEAD
        + """
back(F.cross_entropy(model(x), y, weight=weight))
back(F.cross_entropy(model(x), y))
""",
    )

    assert seen.losses[0]["weight_sum"] == pytest.approx(1 + 2 + 0.5 + 1 + 2)
    assert "weight_sum" not in seen.losses[1]


def test_a_mask_after_a_loss_without_reduction_is_counted(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        HEAD
        + """
losses = F.cross_entropy(model(x), y.clamp(0), reduction="none")
mask = torch.tensor([1.0, 1, 0, 1, 0, 0])
back((losses * mask).sum() / mask.sum())
losses = F.cross_entropy(model(x), y.clamp(0), reduction="none")
back((losses * torch.arange(6.0)).sum())
""",
    )

    even, uneven = seen.losses
    assert (even["nonzero"], even["smallest"], even["largest"]) == (3, pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (uneven["nonzero"], uneven["smallest"], uneven["largest"]) == (5, 1, 5)


def test_ignored_units_of_a_loss_without_reduction_are_no_units(job_server, tmp_path):
    """The gradient of a sum reaches the value of an ignored unit, too: a 0 that no parameter moves."""
    source = 'losses = F.cross_entropy(model(x), y, reduction="none")\nback(losses.sum() / 5)'

    assert units_of(watch(job_server, tmp_path, HEAD + source)) == ([5], [pytest.approx(1)])


def test_class_weights_of_a_loss_without_reduction_weigh_its_units(job_server, tmp_path):
    source = """
losses = F.cross_entropy(model(x), y.clamp(0), reduction="none", weight=weight)
back(losses.sum() / weight[y.clamp(0)].sum())
"""

    assert units_of(watch(job_server, tmp_path, HEAD + source)) == ([1 + 2 + 0.5 + 1 + 1 + 2], [pytest.approx(1)])


def test_a_masked_mean_over_nothing_weighs_no_unit(job_server, tmp_path):
    source = """
losses = F.cross_entropy(model(x), y.clamp(0), reduction="none")
mask = torch.zeros(6)
back((losses * mask).sum() / mask.sum())
"""

    (loss,) = watch(job_server, tmp_path, HEAD + source).losses

    assert loss["nonzero"] == 0


def units_of(seen):
    """What the one term of a job's losses counts, and all that its units weigh."""
    ((term,),) = read_losses([Backward(0, "backward", [], {}, seen.losses)], None).alternatives
    return term.counts_K.tolist(), term.totals_K.tolist()


def test_rows_of_a_table_of_targets_are_sequences(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        HEAD
        + """
table = torch.tensor([[0, 1, 2], [3, -100, 1]])
back(F.cross_entropy(model(x).view(2, 3, 4).transpose(1, 2), table))
back(F.cross_entropy(model(x), table.view(-1)))
back(F.cross_entropy(model(x), y))
""",
    )

    assert [loss.get("rows") for loss in seen.losses] == [2, 2, None]
    assert [loss["elements"] for loss in seen.losses] == [6, 6, 6]


def test_the_same_targets_have_the_same_fingerprint_and_others_another(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        HEAD
        + """
back(F.cross_entropy(model(x), y))
back(F.cross_entropy(model(x), y.clone()))
back(F.cross_entropy(model(x), y.flip(0)))
""",
    )

    prints = [loss["fingerprint"] for loss in seen.losses]
    assert prints[0] == prints[1] != prints[2]


def test_a_loss_whose_backward_never_comes_is_no_loss(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        HEAD
        + """
with torch.no_grad():
    F.cross_entropy(model(x), y)
F.cross_entropy(model(x), y)
back(F.cross_entropy(model(x[:2]), y[:2]))
""",
    )

    assert [loss["count"] for loss in seen.losses] == [2]


def test_two_losses_of_one_backward_are_seen_each_with_its_scale(job_server, tmp_path):
    seen = watch(job_server, tmp_path, HEAD + "back(F.cross_entropy(model(x), y) + 0.1 * F.mse_loss(model(x), t))")

    scales = {loss["function"]: loss["scale"] for loss in seen.losses}
    assert scales == {"cross_entropy": 1.0, "mse_loss": pytest.approx(0.1)}


def test_a_mean_over_nothing_counts_nothing(job_server, tmp_path):
    seen = watch(job_server, tmp_path, HEAD + "back(F.cross_entropy(model(x), torch.full((6,), -100)))")

    assert seen.losses[0]["count"] == 0


def test_a_wrapped_loss_keeps_its_name_and_signature(job_server, tmp_path):
    text = """
import inspect
print(F.cross_entropy.__name__, list(inspect.signature(F.cross_entropy).parameters)[:3], F.cross_entropy.__module__)
"""
    folders = [tmp_path / name for name in ("plain", "audited")]
    for folder in folders:
        folder.mkdir()

    plain, audited = (run(job_server, folder, text, audited=folder.name == "audited") for folder in folders)

    assert plain.ok
    assert plain.output == audited.output


def test_a_wrong_call_of_a_loss_is_the_jobs_own_error(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        HEAD
        + """
try:
    F.cross_entropy(model(x), y[:3])
except ValueError as error:
    assert "batch_size" in str(error)
else:
    raise AssertionError
back(F.cross_entropy(model(x), y))
""",
    )

    assert (len(seen.losses), seen.errors) == (1, [])


def test_losses_and_gradients_are_the_same_with_and_without_the_audit(job_server, tmp_path):
    text = (
        HEAD.replace("lr=0.0", "lr=0.1")
        + "\n".join(CALLS)
        + "\nprint([p.double().sum().item() for p in model.parameters()], torch.rand(1).item())"
    )
    folders = [tmp_path / name for name in ("plain", "audited")]
    for folder in folders:
        folder.mkdir()

    plain, audited = (run(job_server, folder, text, audited=folder.name == "audited") for folder in folders)

    assert plain.ok
    assert plain.output == audited.output
    assert list(Path(folders[1] / "trace").iterdir()) != []


def test_a_call_under_a_mode_of_torch_is_one_loss(job_server, tmp_path):
    under_one = "with torch.device('cpu'): loss = F.cross_entropy(model(x), y)\nback(loss)"
    seen = watch(job_server, tmp_path, HEAD + under_one)

    assert [loss["count"] for loss in seen.losses] == [5]
