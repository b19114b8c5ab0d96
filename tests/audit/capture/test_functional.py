"""Functional collectives that a script calls: counted where autograd goes through them, and left as they were."""

from __future__ import annotations

import textwrap

import pytest

from audit.capture.watched import Seen, run
from failuremap.audit import trace

pytestmark = pytest.mark.torch

START = """
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(4, 4)
step = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 3])
def through(function):
    F.cross_entropy(function(model(x)), y).backward()
    step.step()
"""
END = "\ndist.destroy_process_group()\n"
CALLS = {
    "all_reduce": "lambda h: funcol.all_reduce(h, 'sum', dist.group.WORLD)",
    "all_to_all_single": "lambda h: funcol.all_to_all_single_autograd(h, [3, 3], [3, 3], group=[0, 1])",
}


def watch(server, folder, source):
    """Runs a script on two ranks that must end well; returns what the first rank called in each window."""
    result = run(server, folder, START + textwrap.dedent(source) + END, nproc=2)
    assert result.ok, result.output[-3000:]
    first, _ = seen = [Seen(opened) for opened in trace.read_folder(folder / "trace")]
    assert [one.errors for one in seen] == [[], []]
    return [record.fields["calls"] for record in first.of("collectives")]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_autograd_goes_through_is_told_as_torch_s_own_function(job_server, tmp_path, name):
    ((call,),) = watch(job_server, tmp_path, f"through({CALLS[name]})")

    by = {"all_reduce": "_AllReduce", "all_to_all_single": "_AlltoAllSingle"}[name]
    assert (call["function"], call["by"], call["own"], call["when"]) == (name, by, False, "before")
    assert (call["calls"], call["elements"]) == (1, 24)
    assert call["site"].startswith("train.py:")


def test_a_call_without_a_gradient_is_not_told(job_server, tmp_path):
    source = """
    funcol.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    with torch.no_grad(): funcol.all_reduce(model(x), "sum", dist.group.WORLD)
    through(lambda h: h)
    """

    assert watch(job_server, tmp_path, source) == []


def test_calls_of_torch_s_own_are_not_told(job_server, tmp_path):
    source = """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (2,))
    weight = torch.nn.Parameter(distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]))
    (weight.redistribute(mesh, [Replicate()]).to_local().sum() + F.cross_entropy(model(x), y)).backward()
    step.step()
    """

    assert [call for calls in watch(job_server, tmp_path, source) for call in calls if call["by"]] == []


def test_a_group_is_a_process_group_a_list_a_name_or_a_mesh(job_server, tmp_path):
    source = """
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (2,))
    for group in (dist.group.WORLD, [0, 1], mesh, (mesh, 0), dist.group.WORLD.group_name):
        through(lambda h: funcol.all_reduce(h, "sum", group))
    """

    windows = watch(job_server, tmp_path, source)
    assert [[call["group"] for call in calls] for calls in windows] == [[0]] * 5


def test_a_compiled_region_with_a_functional_collective_stays_whole(job_server, tmp_path):
    source = """
    @torch.compile(backend="eager", fullgraph=True)
    def total(tensor):
        return funcol.wait_tensor(funcol.all_reduce(tensor, "sum", dist.group.WORLD)) * 2
    assert total(torch.ones(3)).tolist() == [4.0] * 3
    assert total(torch.ones(3, requires_grad=True)).tolist() == [4.0] * 3
    through(lambda h: h)
    """

    assert watch(job_server, tmp_path, source) == []


def test_a_call_that_raises_raises_as_before_and_leaves_nothing(job_server, tmp_path):
    source = """
    try:
        funcol.all_to_all_single(model(x), [1], None, dist.group.WORLD)
    except AssertionError as error:
        assert "output_split_sizes" in str(error)
    else:
        raise SystemExit("it did not raise")
    through(lambda h: h)
    """

    assert watch(job_server, tmp_path, source) == []
