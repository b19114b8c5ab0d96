"""What a job keeps for a reference run, and that it is none the worse for it."""

from __future__ import annotations

import pytest

from audit.capture.watched import run, watch

pytestmark = pytest.mark.torch

MODEL = """
from torch import nn
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.0), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(model, steps=3):
    for _ in range(steps):
        x, y = torch.randn(5, 4), torch.randint(3, (5,))
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


def kept(folder):
    """What was kept of each window, in order."""
    import torch

    return [torch.load(path) for path in sorted((folder / "trace").glob("kept-rank*.pt"))]


def keep(job_server, folder, source, wanted=""):
    """Runs a script of one rank that must end well and be seen without an error, and returns what it kept."""
    seen = watch(job_server, folder, MODEL + source, env={"FAILUREMAP_REFERENCE": wanted})
    assert seen.errors == []
    return kept(folder)


def test_two_windows_are_kept_with_their_batches_and_the_weights_before_the_step(job_server, tmp_path):
    first, second = keep(
        job_server, tmp_path, "torch.save([p.clone() for p in model.parameters()], 'start.pt'); train(model)"
    )

    assert (first["count"], second["count"]) == (0, 1)
    assert [len(window["passes"]) for window in (first, second)] == [1, 1]
    (batch,) = first["passes"]
    assert [tuple(tensor.shape) for tensor in (*batch["calls"][0]["args"], *batch["targets"])] == [(5, 4), (5,)]
    assert set(first["parameters"]) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert not first["parameters"]["0.weight"]["local"].equal(second["parameters"]["0.weight"]["local"])


def test_nothing_is_kept_where_no_reference_is_asked_for(job_server, tmp_path):
    watch(job_server, tmp_path, MODEL + "train(model)")

    assert kept(tmp_path) == []


def test_the_weights_are_bitwise_those_of_a_job_that_keeps_nothing(job_server, tmp_path):
    end = f"train(model)\ntorch.save(model.state_dict(), '{tmp_path}/' + __import__('os').environ.get('NAME') + '.pt')"

    for name, env in (("with", {"FAILUREMAP_REFERENCE": "model"}), ("without", {})):
        result = run(job_server, tmp_path, MODEL + end, audited=name == "with", env={**env, "NAME": name})
        assert result.ok, result.output

    import torch

    with_it, without = (torch.load(tmp_path / f"{name}.pt") for name in ("with", "without"))
    assert all(torch.equal(with_it[name], without[name]) for name in without)


@pytest.mark.slow
def test_an_evaluation_with_gradients_on_is_no_part_of_a_batch(job_server, tmp_path):
    first, _ = keep(job_server, tmp_path, "model.eval(); model(torch.ones(2, 4)); model.train(); train(model)")

    assert [len(one["calls"]) for one in first["passes"]] == [1]
    assert tuple(first["passes"][0]["calls"][0]["args"][0].shape) == (5, 4)


@pytest.mark.slow
def test_modules_that_do_not_train_are_told(job_server, tmp_path):
    first, _ = keep(job_server, tmp_path, "model[1].eval(); train(model)")

    assert first["evaluating"] == ["1"]


@pytest.mark.slow
def test_a_model_inside_wrappers_has_the_modes_and_the_names_that_it_has_alone(job_server, tmp_path):
    source = """
        class Wrapper(nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module
            def forward(self, x):
                return self.module(x)
        model.eval()
        train(Wrapper(model))
    """
    import textwrap

    first, _ = keep(job_server, tmp_path, textwrap.dedent(source))

    assert "" in first["evaluating"]
    assert "0.weight" in first["parameters"]


@pytest.mark.slow
def test_a_job_may_pickle_and_copy_its_model_as_before(job_server, tmp_path):
    source = f"""
import copy
twin = copy.deepcopy(model)
torch.save(model, '{tmp_path}/model.pt')
train(model, 1)
torch.save(model, '{tmp_path}/later.pt')
assert not twin._forward_pre_hooks and model._forward_pre_hooks
train(model, 3)
assert not model._forward_pre_hooks and '__getstate__' not in vars(torch.nn.Module)
"""
    keep(job_server, tmp_path, source)

    import torch

    loaded = torch.load(tmp_path / "later.pt", weights_only=False)
    assert not loaded._forward_pre_hooks


@pytest.mark.slow
def test_the_model_is_pickled_where_it_is_asked_for(job_server, tmp_path):
    keep(job_server, tmp_path, "train(model)", wanted="model")

    import torch

    loaded = torch.load(tmp_path / "trace" / "kept-model.pt", weights_only=False)
    assert [type(module).__name__ for module in loaded] == ["Linear", "Dropout", "Linear"]


@pytest.mark.slow
def test_a_model_that_cannot_be_pickled_is_told_and_the_job_goes_on(job_server, tmp_path):
    keep(job_server, tmp_path, "model.hidden = lambda x: x; train(model)", wanted="model")

    assert (tmp_path / "trace" / "kept-model.txt").read_text().startswith("Sequential: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["torch.compile(model, backend='eager', fullgraph=True)", "model.compile(backend='eager') or model"]
)
def test_compiled_models_run_as_before(how, job_server, tmp_path):
    windows = keep(job_server, tmp_path, f"train({how})")

    assert len(windows) == 2


@pytest.mark.slow
def test_a_batch_that_the_script_tells_of_is_kept(job_server, tmp_path):
    source = "import failuremap; failuremap.batch({'rows': [torch.arange(3)]}, 'name', object()); train(model)"

    first, second = keep(job_server, tmp_path, source)

    told, name, left = first["passes"][0]["told"]
    assert (told["rows"][0].tolist(), name, left) == ([0, 1, 2], "name", None)
    assert first["left_out"] == ["object"]
    assert second["passes"][0]["told"] == ()


@pytest.mark.slow
def test_batches_beyond_the_limit_are_not_kept_and_the_size_is_told(job_server, tmp_path):
    source = "from failuremap.audit.capture import keeping; keeping.BATCH_LIMIT = 60; train(model)"

    first, _ = keep(job_server, tmp_path, source)

    weights, batches = first["too_large"]
    assert weights > 0 and batches > 60
    assert "passes" not in first


@pytest.mark.slow
def test_keeping_ends_with_the_capture(job_server, tmp_path):
    env = {"FAILUREMAP_REFERENCE": "", "FAILUREMAP_STEPS": "1"}
    watch(job_server, tmp_path, MODEL + "train(model)\nassert not model._forward_pre_hooks", env=env)

    assert len(kept(tmp_path)) == 1
