"""Collectives that a script calls: counted by kind and moment, and left exactly as they were."""

from __future__ import annotations

import textwrap

import pytest

from audit.capture.watched import Seen, run
from failuremap.audit import trace

pytestmark = pytest.mark.torch

START = """
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(4, 3)
step = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
def back():
    F.cross_entropy(model(x), y).backward()
def reduce():
    for p in model.parameters():
        dist.all_reduce(p.grad)

class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        dist.all_reduce(total := tensor.clone())
        return total
    @staticmethod
    def backward(ctx, gradient):
        dist.all_reduce(total := gradient.clone())
        return total
"""
END = "\ndist.destroy_process_group()\n"


def watch(server, folder, source, *, nproc=2):
    """Runs a script on two ranks that must end well."""
    result = run(server, folder, START + textwrap.dedent(source) + END, nproc=nproc)
    assert result.ok, result.output[-3000:]
    seen = [Seen(opened) for opened in trace.read_folder(folder / "trace")]
    assert [one.errors for one in seen] == [[]] * nproc
    return seen


def calls_of(seen):
    """The calls of each window."""
    return [record.fields["calls"] for record in seen.of("collectives")]


def one_call(server, folder, source):
    """The only entry of the only window."""
    ((call,),) = calls_of(watch(server, folder, source)[0])
    return call


def test_calls_after_backward_are_told_with_the_gradients_that_they_reduce(job_server, tmp_path):
    seen, _ = watch(job_server, tmp_path, "back(); reduce(); step.step()")

    ((call,),) = calls_of(seen)
    assert {key: call[key] for key in ("function", "when", "own", "calls", "elements")} == {
        "function": "all_reduce", "when": "after", "own": True, "calls": 2, "elements": 15,
    }  # fmt: skip
    assert sorted(seen.names[id] for id in call["parameters"]) == ["bias", "weight"]
    assert "other_elements" not in call
    assert [record.fields["ranks"] for record in seen.of("group")] == [[[0, 2, 1]]]


def test_a_reduced_copy_lies_on_no_gradient(job_server, tmp_path):
    call = one_call(
        job_server, tmp_path, "back()\nfor p in model.parameters(): dist.all_reduce(p.grad.double())\nstep.step()"
    )

    assert (call["other_elements"], "parameters" in call) == (15, False)


def test_a_copy_that_becomes_the_gradient_lies_on_it(job_server, tmp_path):
    call = one_call(
        job_server,
        tmp_path,
        "back(); g = model.weight.grad.clone(); dist.all_reduce(g); model.weight.grad = g; step.step()",
    )

    assert len(call["parameters"]) == 1


def test_one_buffer_under_all_gradients_lies_on_each_of_them(job_server, tmp_path):
    seen, _ = watch(
        job_server,
        tmp_path,
        """
        flat = torch.zeros(15)
        model.weight.grad, model.bias.grad = flat[:12].view(3, 4), flat[12:]
        back(); dist.all_reduce(flat); step.step()
        """,
    )

    ((call,),) = calls_of(seen)
    assert (len(call["parameters"]), "other_elements" in call) == (2, False)


def test_calls_before_and_in_backward_are_told_with_the_function_that_makes_them(job_server, tmp_path):
    seen, _ = watch(job_server, tmp_path, "F.cross_entropy(Sum.apply(model(x)), y).backward(); step.step()")

    (calls,) = calls_of(seen)
    assert [(call["when"], call["by"], call["own"], call["elements"]) for call in calls] == [
        ("before", "Sum", True, 15),
        ("backward", "Sum", True, 15),
    ]
    assert {call["site"].partition(":")[0] for call in calls} == {"train.py"}


def test_functions_of_torch_are_told_apart_from_those_of_the_script(job_server, tmp_path):
    seen, _ = watch(
        job_server,
        tmp_path,
        "norm = torch.distributed.nn.functional.all_reduce(model(x)); F.cross_entropy(norm, y).backward(); step.step()",
    )

    (calls,) = calls_of(seen)
    assert [(call["by"], call["own"]) for call in calls] == [("_AllReduce", False), ("_AllReduce", False)]


def test_a_tensor_that_carries_a_gradient_into_a_plain_call_is_told(job_server, tmp_path):
    seen, _ = watch(
        job_server,
        tmp_path,
        """
        out = model(x)
        parts = [torch.empty_like(out) for _ in range(2)]
        dist.all_gather(parts, out)
        dist.all_gather(parts, out.detach())
        with torch.no_grad():
            dist.all_gather(parts, out)
            dist.all_gather(parts, out + 1)
        F.cross_entropy(out, y).backward()
        step.step()
        """,
    )

    (calls,) = calls_of(seen)
    assert [(call.get("carries_gradient", False), call.get("rows", 0), "cut_off" in call) for call in calls] == [
        (True, 10, False),
        (False, 10, False),
        (False, 10, True),
        (False, 0, False),
    ]


def test_a_call_that_nobody_waits_for_before_the_step_is_told(job_server, tmp_path):
    seen, _ = watch(
        job_server,
        tmp_path,
        """
        for wait_first in (False, True):
            step.zero_grad(); back()
            work = dist.all_reduce(model.weight.grad, async_op=True)
            if wait_first: work.wait()
            step.step()
            work.wait()
        """,
    )

    first, second = calls_of(seen)
    assert (first[0]["waiting"], "waiting" in second[0]) == (1, False)


@pytest.mark.parametrize("wait", ["work.get_future().wait()", "while not work.is_completed(): pass"])
def test_every_way_to_wait_counts(wait, job_server, tmp_path):
    call = one_call(
        job_server, tmp_path, f"back(); work = dist.all_reduce(model.weight.grad, async_op=True)\n{wait}\nstep.step()"
    )

    assert "waiting" not in call


def test_an_error_comes_out_as_it_was_and_is_told(job_server, tmp_path):
    call = one_call(
        job_server,
        tmp_path,
        """
        back()
        try:
            dist.all_reduce(None)
        except TypeError as error:
            assert "Invalid function argument" in str(error)
        step.step()
        """,
    )

    assert call["errors"][0].startswith("TypeError: Invalid function argument")


def test_negative_control_a_job_without_collectives_tells_of_none(job_server, tmp_path):
    seen, _ = watch(job_server, tmp_path, "back(); step.step()")

    assert (seen.of("collectives"), seen.of("group")) == ([], [])


def test_calls_of_one_kind_are_one_entry_however_many(job_server, tmp_path):
    call = one_call(job_server, tmp_path, "back()\nfor _ in range(200): dist.all_reduce(torch.ones(2))\nstep.step()")

    assert (call["calls"], call["elements"], call["other_elements"]) == (200, 400, 400)


def test_sending_to_another_rank_is_told_too(job_server, tmp_path):
    seen, _ = watch(
        job_server,
        tmp_path,
        """
        back()
        got = torch.empty(3)
        ops = [dist.P2POp(dist.isend, torch.ones(3), 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]
        for work in dist.batch_isend_irecv(ops): work.wait()
        assert got.sum() == 3
        step.step()
        """,
    )

    ((call,),) = calls_of(seen)
    assert (call["function"], call["elements"]) == ("isend", 3)


def test_no_tensor_is_kept(job_server, tmp_path):
    watch(
        job_server,
        tmp_path,
        """
        import time, weakref
        back()
        copy = model.weight.grad.clone()
        work = dist.all_reduce(copy, async_op=True)
        work.wait()
        gone = [weakref.ref(copy), weakref.ref(work)]
        del copy, work
        latest = time.monotonic() + 10  # the backend's own thread may let go a moment after wait() returned
        while any(ref() is not None for ref in gone) and time.monotonic() < latest:
            time.sleep(0.01)
        assert [ref() for ref in gone] == [None, None]
        step.step()
        """,
    )


def test_functions_keep_their_name_signature_and_type(job_server, tmp_path):
    watch(
        job_server,
        tmp_path,
        """
        import inspect
        assert dist.all_reduce.__name__ == "all_reduce" and inspect.isfunction(dist.all_reduce)
        assert list(inspect.signature(dist.all_reduce).parameters) == ["tensor", "op", "group", "async_op"]
        work = dist.all_reduce(torch.ones(1), async_op=True)
        assert type(work) is dist.distributed_c10d.Work and work.wait() is True
        back(); step.step()
        """,
    )


def test_everything_is_put_back_at_the_end(job_server, tmp_path):
    watch(
        job_server,
        tmp_path,
        """
        from failuremap.audit import capture
        back(); step.step()
        watching, waiting = dist.all_reduce, dist.distributed_c10d.Work.wait
        capture.finish()
        assert dist.all_reduce is dist.distributed_c10d.all_reduce is not watching
        assert dist.distributed_c10d.Work.wait is not waiting
        dist.all_reduce(torch.ones(1))
        """,
    )


def test_a_compiled_region_with_a_collective_stays_whole(job_server, tmp_path):
    watch(
        job_server,
        tmp_path,
        """
        @torch.compile(backend="eager", fullgraph=True)
        def total(tensor):
            dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
            return tensor * 2
        assert total(torch.ones(3)).tolist() == [4.0] * 3
        back(); step.step()
        """,
    )


def test_a_checkpointed_region_is_not_taken_for_the_function_that_calls(job_server, tmp_path):
    seen, _ = watch(
        job_server,
        tmp_path,
        """
        from torch.utils.checkpoint import checkpoint
        def region(inputs):
            dist.all_reduce(torch.ones(1))
            return Sum.apply(model(inputs))
        out = checkpoint(region, x.requires_grad_(), use_reentrant=True)
        F.cross_entropy(out, y).backward()
        step.step()
        """,
    )

    (calls,) = calls_of(seen)
    assert [(call["when"], call.get("by", ""), call["own"]) for call in calls] == [
        ("before", "", True),
        ("before", "Sum", True),
        ("backward", "", True),
        ("backward", "Sum", True),  # its forward, again
        ("backward", "Sum", True),
    ]


def test_a_rank_outside_the_group_calls_nothing(job_server, tmp_path):
    seen = watch(
        job_server,
        tmp_path,
        """
        import warnings
        alone = dist.new_group([0])
        back()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist.all_reduce(model.weight.grad, group=alone)
        step.step()
        """,
    )

    assert [len(one.of("collectives")) for one in seen] == [1, 0]
    assert [record.fields["ranks"] for record in seen[0].of("group")] == [[[0, 1, 1]]]
