"""What backward starts from: a term of the loss that no watched function made is named; every backward is delimited."""

from __future__ import annotations

import weakref

import pytest

from audit.capture.watched import Seen, run, watch
from failuremap.audit import trace

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def losses(torch):
    """Two marked losses."""
    from failuremap.audit.capture.loss.graph import mark

    found = []
    for seed in range(2):
        logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        found.append(torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0])))
        mark(found[-1])
    return found


def unseen(*roots):
    from failuremap.audit.capture.loss.graph import terms

    return terms(roots).unseen


def test_a_marked_loss_is_seen(losses):
    assert unseen(losses[0]) == []


@pytest.mark.parametrize(
    "combine",
    [
        lambda a, b: a / 4,
        lambda a, b: a + 0.1 * b,
        lambda a, b: (a - b).abs().sqrt(),
        lambda a, b: a.clone().view(1)[0] * 2,
        lambda a, b: sum([a, b]) / 2,
    ],
    ids=["scaled", "added", "roots", "views", "summed"],
)
def test_arithmetic_around_marked_losses_is_seen(combine, losses):
    assert unseen(combine(*losses)) == []


class Wrapper:
    """As much of DistributedDataParallel as the node asks for through which it passes what a forward returns."""

    _ddp_sink_clone = True


def test_of_the_results_that_ddp_passes_through_one_node_only_the_root_is_followed(losses, torch):
    from torch.nn.parallel.distributed import _DDPSink

    wrapper = Wrapper()
    logits = torch.randn(4, 3, requires_grad=True).softmax(1)

    loss, scores = _DDPSink.apply(weakref.ref(wrapper), losses[0], logits)

    assert unseen(loss / 2) == []
    assert unseen(loss + scores.sum()) == ["Softmax"]


def test_stacked_losses_are_seen(losses, torch):
    assert unseen(torch.stack(losses).mean()) == []


def test_several_roots_are_followed(losses):
    assert unseen(*losses) == []


def test_a_loss_that_was_not_marked_is_named(torch):
    logits = torch.randn(4, 3, requires_grad=True)

    assert unseen(torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0]))) == ["NllLoss"]


def test_a_term_written_by_hand_is_named_beside_a_marked_one(losses, torch):
    extra = torch.randn(4, 3, requires_grad=True).softmax(1)

    assert unseen(losses[0] + extra.sum()) == ["Softmax"]


def test_a_term_times_zero_is_none_and_one_times_little_is(losses, torch):
    extra = torch.randn(4, 3, requires_grad=True).softmax(1).sum()

    assert unseen(losses[0] + 0 * extra) == unseen(losses[0] + extra * 0.0) == []
    assert unseen(losses[0] + 1e-9 * extra) == ["Softmax"]


@pytest.mark.parametrize(
    ("combine", "times"),
    [
        (lambda a, b, weight: a + b, 1.0),
        (lambda a, b, weight: 0.5 * (a * 0.3).sum(), 0.15),
        (lambda a, b, weight: a / 2, 1.0),
        (lambda a, b, weight: a * weight.new_tensor(1024.0), 1.0),
        (lambda a, b, weight: (-weight).exp() * a + weight, None),
        (lambda a, b, weight: a / weight.square(), None),
    ],
    ids=["added", "numbers", "divided", "a scaler", "learned", "learned divisor"],
)
def test_what_a_loss_is_multiplied_by_is_known_if_it_stands_in_the_script(combine, times, losses, torch):
    from failuremap.audit.capture.loss.graph import made_of

    seen = made_of(losses[0].clone())[0]

    assert unseen(combine(*losses, torch.ones((), requires_grad=True))) == []
    assert seen.times == (pytest.approx(times) if times else None)
    assert seen.factor == ({} if times == 1 else {"times": seen.times})


def test_weight_decay_written_into_the_loss_is_no_unseen_term(losses, torch):
    weight = torch.randn(3, requires_grad=True)

    assert unseen(losses[0] + 0.1 * (weight**2).sum()) == []


def test_a_tensor_without_a_graph_has_no_unseen_term(torch):
    assert unseen(torch.ones(())) == []


def test_a_very_long_graph_ends(losses):
    total = losses[0]
    for _ in range(25_000):
        total = total + 1

    assert isinstance(unseen(total), list)


# ---- backward passes in a job

MODEL = """
model = torch.nn.Linear(4, 3)
x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
step = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def test_each_backward_is_a_record_with_its_way_in(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
F.cross_entropy(model(x), y).backward()
torch.autograd.backward(F.cross_entropy(model(x), y))
torch.autograd.backward(tensors=[F.cross_entropy(model(x), y)])
torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
torch.autograd.grad(outputs=F.cross_entropy(model(x), y), inputs=list(model.parameters()))
step.step()
""",
    )

    told = [record.fields for record in seen.of("backward")]
    assert [fields["id"] for fields in told] == [0, 1, 2, 3, 4]
    assert [fields["via"] for fields in told] == ["backward"] * 3 + ["grad"] * 2
    assert [len(fields["losses"]) for fields in told] == [1] * 5
    assert [fields["unseen"] for fields in told] == [[]] * 5
    assert seen.errors == []


def test_a_loss_by_hand_is_unseen_and_one_of_torch_is_not(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
F.cross_entropy(model(x), y).backward()
(model(x).softmax(1).log().gather(1, y[:, None]) ** 2).mean().backward()
step.step()
""",
    )

    assert [record.fields["unseen"] for record in seen.of("backward")] == [[], ["Softmax"]]


def test_the_path_is_that_of_the_wrappers_that_were_called(job_server, tmp_path):
    """Two models are wrapped; one of them is trained, first with and then without synchronising."""
    result = run(
        job_server,
        tmp_path,
        """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
first, second = DDP(torch.nn.Linear(4, 3)), DDP(torch.nn.Linear(4, 3))
step = torch.optim.SGD(second.parameters(), lr=0.1)
x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
F.cross_entropy(second(x), y).backward()
with second.no_sync():
    F.cross_entropy(second(x), y).backward()
step.step()
dist.destroy_process_group()
""",
        nproc=2,
    )

    assert result.ok, result.output
    seen = Seen(trace.read_folder(tmp_path / "trace")[0])
    paths = [record.fields["path"] for record in seen.of("backward")]
    assert [(path["forwards"], path["armed"], path["synchronising"]) for path in paths] == [(1, 1, True), (1, 0, False)]


def test_checkpointing_inside_a_backward_is_one_backward(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
from torch.utils.checkpoint import checkpoint
for reentrant in (True, False):
    F.cross_entropy(checkpoint(model, x.requires_grad_(), use_reentrant=reentrant), y).backward()
    step.step()
""",
    )

    assert [sorted(record.fields["parameters"]) for record in seen.of("backward")] == [[0, 1], [0, 1]]
    assert seen.errors == []


def test_a_backward_that_fails_raises_into_the_job_as_ever_and_the_next_is_seen(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        MODEL
        + """
try:
    torch.ones(2, requires_grad=True).backward()
except RuntimeError as error:
    assert "scalar" in str(error)
else:
    raise AssertionError
F.cross_entropy(model(x), y).backward()
step.step()
""",
    )

    assert len(seen.of("backward")) == 1
    assert seen.of("backward")[0].fields["losses"][0]["count"] == 5


@pytest.mark.parametrize(
    "bad", ["torch.autograd.backward()", "torch.autograd.backward(None)", "torch.autograd.grad(3, 4)"]
)
def test_bad_arguments_are_the_jobs_own_error(bad, job_server, tmp_path):
    plain, audited = tmp_path / "plain", tmp_path / "audited"
    plain.mkdir()
    audited.mkdir()

    said = [run(job_server, folder, bad, audited=folder == audited) for folder in (plain, audited)]

    assert [result.exit_codes for result in said] == [[1], [1]]
    assert said[0].output.splitlines()[-1] == said[1].output.splitlines()[-1]
