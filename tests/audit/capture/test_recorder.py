"""The recorder: each backward once and before any reduction, nothing raised into the job, one file a process."""

from __future__ import annotations

import os

import numpy as np
import pytest

from audit.capture.watched import Seen, run, watch
from failuremap.audit import trace

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


def test_the_header_says_who_wrote_it(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "back(); step.step()")

    header = seen.trace.header
    assert seen.records[0].kind == "header"
    assert (header["format"], header["rank"], header["world_size"], header["unit"]) == (2, 0, 1, "example")
    assert header["framework"].startswith("torch ")
    assert header["sketch"] == {"raw": 128, "coordinates": 64, "sums": 64}
    assert len(header["run"]) == 32


def test_a_parameter_is_introduced_once_and_before_its_first_use(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "back(); back(); step.step()")

    assert [record.kind for record in seen.records] == [
        "header", "parameter", "parameter", "backward", "backward", "step", "end",
    ]  # fmt: skip
    assert [(r.fields["name"], r.fields["shape"], r.fields["dtype"]) for r in seen.of("parameter")] == [
        ("weight", [3, 4], "float32"),
        ("bias", [3], "float32"),
    ] or sorted(seen.names.values()) == ["bias", "weight"]


def test_a_backward_holds_its_own_gradient_and_not_what_was_there(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "back(); back(); step.step()")

    first, second = seen.of("backward")
    np.testing.assert_array_equal(first.payload, second.payload)
    assert (first.fields["kept"], sorted(second.fields["kept"])) == ([], [0, 1])


def test_a_gradient_that_was_zeroed_is_not_kept(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL + "back(); step.zero_grad(); back(); step.zero_grad(set_to_none=False); back(); step.step()",
    )

    assert [record.fields["kept"] for record in seen.of("backward")] == [[], [], []]


def test_the_local_gradient_is_seen_before_the_scripts_own_hook_reduces_it(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
model.weight.register_hook(lambda gradient: gradient * 3)
back(); step.step()
""",
    )

    (backward,) = seen.of("backward")
    update = seen.numbers(seen.of("step")[0])
    np.testing.assert_allclose(update["weight"], 3 * seen.numbers(backward)["weight"], rtol=1e-6)
    np.testing.assert_array_equal(update["bias"], seen.numbers(backward)["bias"])
    assert [seen.names[id] for id in backward.fields["altered"]] == ["weight"]
    np.testing.assert_allclose(backward.payload[-12:], update["weight"], rtol=1e-6)


def test_without_own_hooks_nothing_is_altered(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "back(); step.step()")

    assert seen.of("backward")[0].fields["altered"] == []


def test_a_large_parameter_is_written_as_a_sketch(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        """
model = torch.nn.Linear(40, 30)
step = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    F.mse_loss(model(torch.randn(5, 40)), torch.randn(5, 30)).backward()
    step.step()
""",
    )

    assert sorted(seen.rows.values()) == [30, 128]
    sizes = [len(record.payload) for record in seen.of("step")]
    assert sizes == [2 * 158, 158 + 64 + 30]


def test_a_sparse_gradient_is_seen(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        """
embed = torch.nn.Embedding(1000, 4, sparse=True)
step = torch.optim.SparseAdam(embed.parameters())
F.mse_loss(embed(torch.tensor([1, 7, 7])), torch.zeros(3, 4)).backward()
step.step()
""",
    )

    np.testing.assert_allclose(seen.of("step")[0].payload[:128], seen.of("backward")[0].payload, rtol=1e-5)
    assert (seen.errors, np.any(seen.of("backward")[0].payload)) == ([], True)
    assert [record.fields["sparse"] for record in seen.of("parameter")] == [True]


def test_negative_control_a_dense_gradient_is_not_said_to_be_sparse(job_server, tmp_path):
    seen = watch(job_server, tmp_path, MODEL + "back(); step.step()")

    assert [record.fields.get("sparse", False) for record in seen.of("parameter")] == [False, False]


def test_the_audit_stops_after_the_steps_it_was_asked_for(job_server, tmp_path):
    text = MODEL + "for _ in range(5): step.zero_grad(); back(); step.step()"

    seen = watch(job_server, tmp_path, text, env={"FAILUREMAP_STEPS": "2"})

    assert (len(seen.of("step")), len(seen.of("backward")), seen.errors) == (2, 2, [])


def test_a_job_that_does_nothing_leaves_no_trace(job_server, tmp_path):
    assert run(job_server, tmp_path, "print(1)").ok
    assert list((tmp_path / "trace").iterdir()) == []


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


# ---- nothing is raised into the job


def test_what_goes_wrong_inside_a_hook_is_noted_and_the_job_goes_on(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
def broken(*_, **__):
    raise ZeroDivisionError("planted")
capture.current.watched[0].sketch.coordinates = broken
type(capture.current.watched[0].sketch).read = broken
for _ in range(50):
    step.zero_grad(); back(); step.step()
assert model.weight.grad is not None
""",
    )

    assert seen.errors[0] == "on_gradient: ZeroDivisionError: planted"
    assert len(seen.errors) == 20


def test_a_full_disk_ends_the_trace_and_not_the_job(job_server, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    result = run(
        job_server,
        tmp_path,
        MODEL
        + """
from failuremap.audit.capture import recorder
back(); step.step()
full = open("/dev/full", "wb", buffering=0)
capture.current.writer._file = full
for _ in range(3):
    step.zero_grad(); back(); step.step()
assert not capture.current.active
assert "No space left" in capture.current.errors[0]
print("trained")
""",
    )

    assert (result.ok, result.output) == (True, "trained\n")
    (read,) = trace.read_folder(tmp_path / "trace")
    assert (read.end, read.torn) == (None, "")


def test_a_folder_that_cannot_be_written_ends_the_audit_and_not_the_job(job_server, tmp_path):
    result = run(
        job_server,
        tmp_path,
        MODEL + "capture.current.folder = capture.current.folder / 'nowhere'\nback(); step.step(); print('trained')",
    )

    assert (result.ok, result.output) == (True, "trained\n")


# ---- processes


def test_a_process_that_is_gone_at_once_leaves_a_trace_without_an_end(job_server, tmp_path):
    result = run(job_server, tmp_path, MODEL + "back(); step.step(); os._exit(3)")

    (read,) = trace.read_folder(tmp_path / "trace")
    assert (result.exit_codes, read.end, read.torn) == ([3], None, "")
    assert len(Seen(read).of("step")) == 1


def test_a_script_that_fails_still_has_an_end(job_server, tmp_path):
    result = run(job_server, tmp_path, MODEL + "back(); step.step(); 1 / 0")

    (read,) = trace.read_folder(tmp_path / "trace")
    assert (result.exit_codes, read.end is not None) == ([1], True)


def test_a_forked_child_that_trains_writes_a_trace_of_its_own(job_server, tmp_path):
    result = run(
        job_server,
        tmp_path,
        MODEL
        + """
child = os.fork()
if child == 0:
    os.environ["RANK"] = "1"
os.environ["WORLD_SIZE"] = "2"
back(); step.step()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    capture.finish()
    os._exit(0)
""",
    )

    assert result.ok, result.output
    seen = [Seen(read) for read in trace.read_folder(tmp_path / "trace")]
    assert [(one.trace.rank, one.trace.header["world_size"], len(one.of("step"))) for one in seen] == [
        (0, 2, 1),
        (1, 2, 1),
    ]
    assert [sorted(one.names.values()) for one in seen] == [["bias", "weight"]] * 2


def test_ranks_of_a_process_group_write_a_trace_each(job_server, tmp_path):
    result = run(
        job_server,
        tmp_path,
        MODEL
        + """
torch.distributed.init_process_group("gloo")
back()
for p in model.parameters():
    torch.distributed.all_reduce(p.grad)
step.step()
torch.distributed.destroy_process_group()
""",
        nproc=2,
    )

    assert result.ok, result.output
    seen = [Seen(read) for read in trace.read_folder(tmp_path / "trace")]
    assert [(one.trace.rank, one.trace.header["world_size"]) for one in seen] == [(0, 2), (1, 2)]
    local = [one.in_order(one.of("backward")[0]) for one in seen]
    for one in seen:
        np.testing.assert_allclose(one.in_order(one.of("step")[0]), local[0] + local[1], rtol=1e-5, atol=1e-7)


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
