"""torch may swap the contents of watched parameters, as module.to(...) does with DTensors; they stay watched."""

from __future__ import annotations

import pytest

from audit.capture.watched import run, watch

pytestmark = pytest.mark.torch

DISTRIBUTED = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
dist.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 3))
parallelize_module(model, init_device_mesh("cpu", (1,)), {"0": ColwiseParallel()})
step = torch.optim.SGD(model.parameters(), lr=0.1)
model.to(torch.float64)
F.cross_entropy(model(torch.randn(5, 4, dtype=torch.float64)), torch.tensor([0, 1, 2, 0, 1])).backward()
step.step()
"""
PLAIN = """
model = torch.nn.Linear(4, 3)
step = torch.optim.SGD(model.parameters(), lr=0.1)
def back():
    F.cross_entropy(model(torch.randn(5, 4, dtype=model.weight.dtype)), torch.tensor([0, 1, 2, 0, 1])).backward()
torch.__future__.set_swap_module_params_on_conversion(True)
"""


def test_torch_refuses_to_swap_a_tensor_that_is_referred_to_weakly(job_server, tmp_path):
    source = PLAIN + "import weakref\nreference = weakref.ref(model.weight); model.to(torch.float64)"

    result = run(job_server, tmp_path, source, audited=False)

    assert "has weakref associated with it" in result.output


@pytest.mark.parametrize("audited", [True, False])
def test_a_model_with_dtensors_can_be_moved(audited, job_server, tmp_path):
    assert run(job_server, tmp_path, DISTRIBUTED, audited=audited).ok


def test_dtensors_are_watched_after_a_move(job_server, tmp_path):
    seen = watch(job_server, tmp_path, DISTRIBUTED)

    (backward,) = seen.of("backward")
    assert seen.errors == []
    assert {seen.names[id] for id in backward.fields["parameters"]} == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_parameters_that_were_swapped_are_watched_under_their_names(job_server, tmp_path):
    seen = watch(job_server, tmp_path, PLAIN + "back(); model.to(torch.float64); step.zero_grad(); back(); step.step()")

    first, second = seen.of("backward")
    assert sorted(seen.names.values()) == ["bias", "weight"]
    assert sorted(first.fields["parameters"]) == sorted(second.fields["parameters"])


def test_a_gradient_is_noted_once_after_two_swaps(job_server, tmp_path):
    seen = watch(job_server, tmp_path, PLAIN + "model.double().float().double(); back(); step.step()")

    (backward,) = seen.of("backward")
    assert sorted(seen.names[id] for id in backward.fields["parameters"]) == ["bias", "weight"]


def test_a_swap_that_fails_fails_as_it_would(job_server, tmp_path):
    source = PLAIN + "other = model.weight.view(-1)\ntorch.utils.swap_tensors(model.weight, torch.ones(3, 4))"
    plain = run(job_server, tmp_path, source, audited=False)
    audited = run(job_server, tmp_path, source)

    assert plain.output.splitlines()[-1] == audited.output.splitlines()[-1]


@pytest.mark.parametrize("audited", [True, False])
def test_a_hook_that_the_script_registers_after_a_swap_is_called(audited, job_server, tmp_path):
    source = PLAIN + "model.double(); model.weight.register_hook(lambda _: print('called')); back()"

    assert run(job_server, tmp_path, source, audited=audited).output == "called\n"
