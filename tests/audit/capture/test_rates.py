"""A step tells the learning rate of each parameter, where it is a number that can be read without waiting."""

from __future__ import annotations

import pytest

from audit.capture.watched import watch

pytestmark = pytest.mark.torch

MODEL = """
model = torch.nn.Linear(4, 3)
x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
def back():
    F.cross_entropy(model(x), y).backward()
"""


def rates_of(server, folder, source):
    """The rates of each step."""
    return [record.fields["rates"] for record in watch(server, folder, MODEL + source).of("step")]


def test_parameters_at_one_rate_are_one_pair(job_server, tmp_path):
    assert rates_of(
        job_server, tmp_path, "step = torch.optim.SGD(model.parameters(), lr=0.1); back(); step.step()"
    ) == [[[0.1, 2]]]


def test_groups_have_rates_of_their_own_and_a_scheduler_changes_them(job_server, tmp_path):
    told = rates_of(
        job_server,
        tmp_path,
        """
step = torch.optim.SGD([{"params": [model.bias], "lr": 0.5}, {"params": [model.weight]}], lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(step, 0.5)
for _ in range(2):
    back(); step.step(); schedule.step()
""",
    )

    assert told == [[[0.5, 1], [0.1, 1]], [[0.25, 1], [0.05, 1]]]


def test_a_parameter_without_a_gradient_has_no_rate(job_server, tmp_path):
    source = "step = torch.optim.SGD(model.parameters(), lr=0.1); model.bias.requires_grad_(False); back(); step.step()"

    assert rates_of(job_server, tmp_path, source) == [[[0.1, 1]]]


@pytest.mark.parametrize(
    ("rate", "told"), [("torch.tensor(0.25)", 0.25), ("1", 1.0)], ids=["a tensor on the CPU", "an integer"]
)
def test_a_rate_may_be_any_number(rate, told, job_server, tmp_path):
    source = f"step = torch.optim.SGD(model.parameters(), lr={rate}); back(); step.step()"

    assert rates_of(job_server, tmp_path, source) == [[[told, 2]]]


def test_negative_control_a_rate_that_is_no_number_is_not_known(job_server, tmp_path):
    source = """
class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": None})
    def step(self):
        pass
step = Own(model.parameters()); back(); step.step()
"""

    assert rates_of(job_server, tmp_path, source) == [[[None, 2]]]
