"""Real jobs whose own functions pass activations between the ranks: what is told of them, and what is not accused."""

from __future__ import annotations

import textwrap

import pytest

from audit.capture.watched import run
from failuremap.audit import diagnose
from failuremap.audit.sentences import call_words

pytestmark = pytest.mark.torch

START = """
import torch.distributed as dist
from torch import nn
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()

def total(tensor):
    dist.all_reduce(summed := tensor.clone())
    return summed

class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor): return total(tensor)
    @staticmethod
    def backward(ctx, gradient): return total(gradient)

class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor): return tensor
    @staticmethod
    def backward(ctx, gradient): return total(gradient)

class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor): return total(tensor)
    @staticmethod
    def backward(ctx, gradient): return gradient
"""
END = "\ndist.destroy_process_group()\n"

SEQUENCE_PARALLEL = """
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head, self.gate = nn.Embedding(32, 16), nn.Linear(16, 32), nn.Parameter(torch.ones(1))
    def forward(self, tokens):
        hidden = self.embedding(tokens)
        return self.head(hidden + self.gate * Sum.apply(hidden.mean(1, keepdim=True)) / world_size)

torch.manual_seed(0)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    tokens = torch.randint(32, (4, 8 * world_size + 1))
    inputs, targets = tokens[:, 8 * rank : 8 * rank + 8], tokens[:, 8 * rank + 1 : 8 * rank + 9]
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
    (loss / (32 * world_size)).backward()
    for name, parameter in model.named_parameters():
        if name not in LEFT_OUT:
            dist.all_reduce(parameter.grad)
    optimizer.step()
"""

TENSOR_PARALLEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(32, 16), nn.Linear(16, 32)
        torch.manual_seed(1 + rank)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16, bias=False)
    def forward(self, tokens):
        hidden = self.embed(tokens)
        return self.head(hidden + Reduce.apply(self.down(self.up(Copy.apply(hidden)).relu())))

model = Block()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(5 + SEED * rank)
for _ in range(3):
    tokens = torch.randint(32, (4, 9))
    optimizer.zero_grad()
    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
    optimizer.step()
"""


def audited(server, folder, source):
    """The verdict on a script of two ranks that ends well."""
    result = run(server, folder, START + textwrap.dedent(source) + END, nproc=2)
    assert result.ok, result.output[-3000:]
    return diagnose(folder / "trace")


def names(verdict):
    """The mechanisms of all findings."""
    return sorted({candidate.slug for finding in verdict.findings for candidate in finding.candidates})


@pytest.mark.parametrize("left_out", ["gate", "head.bias"])
def test_a_parameter_whose_parts_are_not_added_up_is_named(left_out, job_server, tmp_path):
    verdict = audited(job_server, tmp_path, f"LEFT_OUT = {left_out!r}\n" + SEQUENCE_PARALLEL)

    assert (verdict.outcome, names(verdict)) == ("wrong", ["partials-not-reduced"])
    assert verdict.findings[0].parameters == [left_out]


def test_negative_control_with_all_parts_added_up_the_job_is_right_and_the_function_is_told(job_server, tmp_path):
    verdict = audited(job_server, tmp_path, "LEFT_OUT = ''\n" + SEQUENCE_PARALLEL)

    assert verdict.outcome == "right"
    assert any(note.startswith("activations cross the ranks in Sum (train.py:") for note in verdict.notes)


def test_tensor_parallelism_by_hand_is_not_accused_of_reducing_nothing(job_server, tmp_path):
    verdict = audited(job_server, tmp_path, "SEED = 0\n" + TENSOR_PARALLEL)

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert call_words.ONE_MODEL in verdict.reasons


def test_negative_control_the_same_on_other_batches_is_wrong(job_server, tmp_path):
    assert audited(job_server, tmp_path, "SEED = 1\n" + TENSOR_PARALLEL).outcome == "wrong"


def test_a_batch_norm_of_torch_over_all_ranks_is_right_without_a_note(job_server, tmp_path):
    verdict = audited(
        job_server,
        tmp_path,
        """
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(1 + rank)
        for _ in range(3):
            hidden = model[0](torch.randn(5, 6))
            mean = torch.distributed.nn.functional.all_reduce(hidden.mean(0)) / world_size
            optimizer.zero_grad()
            F.cross_entropy(model[1](hidden - mean), torch.randint(4, (5,))).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= world_size
            optimizer.step()
        """,
    )

    assert verdict.outcome == "right"
    assert [note for note in verdict.notes if "cross the ranks" in note] == []
