"""Found in capture while the tests were written: what should hold, and does not yet."""

from __future__ import annotations

import pytest

from audit.capture.watched import watch
from failuremap.audit.story import Backward
from failuremap.audit.weigh import read_losses

pytestmark = pytest.mark.torch

MODEL = """
import os
from failuremap.audit import capture
model = torch.nn.Linear(4, 3)
x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
step = torch.optim.SGD(model.parameters(), lr=0.1)
def back():
    F.cross_entropy(model(x), y).backward()
"""


def test_a_trace_that_grows_too_large_says_so_and_stops(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
from failuremap.audit.capture import recorder
recorder.TRACE_LIMIT = 1 << 12
for _ in range(50):
    step.zero_grad(); back(); step.step()
""",
    )

    (note,) = seen.of("note")
    assert note.fields["text"] == "the trace reached 0 MiB; later steps were not recorded"
    assert 0 < len(seen.of("step")) < 50
    assert seen.trace.path.stat().st_size < 1 << 13


def test_a_child_that_does_not_train_leaves_its_parents_trace_alone(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
back(); step.step()
child = os.fork()
if child == 0:
    capture.finish()
    os._exit(0)
os.waitpid(child, 0)
step.zero_grad(); back(); step.step()
""",
    )

    assert (len(seen.of("step")), len(seen.of("end")), seen.trace.torn) == (2, 1, "")


def test_workers_of_a_data_loader_leave_their_parents_trace_alone(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
from torch.utils.data import DataLoader, TensorDataset
for a, b in DataLoader(TensorDataset(x, y), batch_size=5, num_workers=2):
    F.cross_entropy(model(a), b).backward()
    step.step()
""",
    )

    assert (len(seen.of("step")), seen.errors) == (1, [])


def test_ignored_units_of_a_loss_without_reduction_are_no_units(job_server, tmp_path):
    """The gradient of a sum reaches the value of an ignored unit, too: a 0 that no parameter moves."""
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
y[3:] = -100
losses = F.cross_entropy(model(x), y, reduction="none")
(losses.sum() / 3).backward()
step.step()
""",
    )

    ((term,),) = read_losses([Backward(0, "backward", [], {}, seen.losses)], None).alternatives
    assert (term.counts_K.tolist(), term.totals_K.tolist()) == ([3], [pytest.approx(1)])


def test_a_clip_by_a_norm_that_was_computed_before_is_written(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
back()
norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
torch.nn.utils.clip_grads_with_norm_(model.parameters(), 0.01, norm)
step.step()
""",
    )

    (clip,) = seen.of("clip")
    assert (clip.fields["limit"], clip.fields["norm"] > 0.01) == (0.01, True)


def test_class_weights_of_a_loss_without_reduction_weigh_its_units(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
weight = torch.tensor([1.0, 2.0, 4.0])
losses = F.cross_entropy(model(x), y, reduction="none", weight=weight)
(losses.sum() / weight[y].sum()).backward()
step.step()
""",
    )

    ((term,),) = read_losses([Backward(0, "backward", [], {}, seen.losses)], None).alternatives
    assert (term.counts_K.tolist(), term.totals_K.tolist()) == ([10], [pytest.approx(1)])
