"""Two lines that make a loss seen which no watched function made, and that do nothing where no audit runs."""

from __future__ import annotations

import pytest

import failuremap
from audit.capture.watched import run, watch

MODEL = """
import failuremap
model = torch.nn.Linear(4, 3)
x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
step = torch.optim.SGD(model.parameters(), lr=0.1)
def unit_losses():
    return 1 - model(x).sigmoid().gather(1, y[:, None])
"""


def test_without_an_audit_a_mark_returns_what_it_got():
    losses = [0.5, 0.25]

    assert failuremap.unit_losses(losses) is losses
    assert failuremap.count(3) is None
    assert failuremap.count(3, losses) is None


@pytest.mark.torch
def test_marked_unit_losses_are_counted_and_leave_nothing_unseen(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
losses = unit_losses()
assert failuremap.unit_losses(losses) is losses
(losses * torch.tensor([1.0, 1, 1, 0, 0])[:, None]).sum().div(6).backward()
step.step()
""",
    )

    (loss,) = seen.losses
    assert (loss["function"], loss["reduction"], loss["count"], loss["nonzero"]) == ("unit_losses", "none", 5, 3)
    assert (loss["scale"], loss["smallest"], loss["largest"]) == pytest.approx((0.5, 1 / 6, 1 / 6))
    assert loss["site"].startswith("train.py:")
    assert (seen.of("backward")[0].fields["unseen"], seen.errors) == ([], [])


@pytest.mark.torch
def test_without_a_mark_the_same_loss_is_unseen(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "unit_losses().mean().backward()\nstep.step()")

    assert (seen.losses, seen.of("backward")[0].fields["unseen"]) == ([], ["Gather"])


@pytest.mark.torch
def test_a_count_with_its_loss_has_the_scale_that_reached_the_mean(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
loss = unit_losses().mean()
failuremap.count(5, loss)
(loss / 4).backward()
step.step()
""",
    )

    (loss,) = seen.losses
    assert (loss["function"], loss["reduction"], loss["count"], loss["scale"]) == ("count", "mean", 5, 0.25)
    assert seen.of("backward")[0].fields["unseen"] == []


@pytest.mark.torch
@pytest.mark.parametrize(("reduction", "scale"), [("mean", 1 / 5), ("sum", 1.0)])
def test_counts_without_a_loss_read_the_scale_where_the_next_loss_is_summed(reduction, scale, job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + f"""
failuremap.count(5)
failuremap.count(2)
unit_losses().{reduction}().backward()
unit_losses().{reduction}().backward()
step.step()
""",
    )

    first, second = seen.of("backward")
    (loss,) = first.fields["losses"]
    assert (loss["function"], loss["count"], loss["scale"]) == ("count", 7, pytest.approx(scale))
    assert (first.fields["counts"], second.fields["counts"], second.fields["losses"]) == ([], [], [])


@pytest.mark.torch
def test_counts_of_a_loss_of_two_sums_have_no_scale(job_server, tmp_path):
    source = "failuremap.count(7)\n(unit_losses().sum() + 2 * unit_losses().sum()).backward()\nstep.step()"

    (only,) = watch(job_server, tmp_path, MODEL + source).of("backward")

    assert (only.fields["counts"], only.fields["losses"]) == ([7], [])


@pytest.mark.torch
def test_a_mark_on_something_without_a_gradient_does_nothing(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
failuremap.unit_losses(torch.ones(3))
failuremap.count(3, torch.ones(()))
with torch.no_grad():
    failuremap.unit_losses(unit_losses())
F.cross_entropy(model(x), y).backward()
step.step()
""",
    )

    assert ([loss["function"] for loss in seen.losses], seen.errors) == (["cross_entropy"], [])


INSIDE = """
each = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
apart = torch.nn.functional.mse_loss(model(x), torch.zeros(5, 3))
weighted = each * torch.tensor([1.0, 2, 3, 4, 5])
{mark}
(weighted.mean() + apart).backward()
step.step()
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("mark", "functions"),
    [
        ("failuremap.unit_losses(weighted)", ["mse_loss", "unit_losses"]),
        ("failuremap.count(5, weighted.mean())", ["cross_entropy", "mse_loss"]),
    ],
    ids=["on the way", "on a tensor that backward does not pass"],
)
def test_what_is_said_of_a_loss_goes_before_what_is_seen_in_it(job_server, tmp_path, mark, functions):
    seen = watch(job_server, tmp_path, MODEL + INSIDE.format(mark=mark))

    assert sorted(loss["function"] for loss in seen.losses) == functions


@pytest.mark.torch
def test_marks_change_no_gradient(job_server, tmp_path):
    text = (
        MODEL
        + """
loss = failuremap.unit_losses(unit_losses()).mean()
failuremap.count(5, loss)
loss.backward()
print(model.weight.grad.tolist())
"""
    )
    folders = [tmp_path / name for name in ("plain", "audited")]
    for folder in folders:
        folder.mkdir()

    plain, audited = (run(job_server, folder, text, audited=folder.name == "audited") for folder in folders)

    assert plain.ok
    assert plain.output == audited.output
