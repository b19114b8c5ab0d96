"""The effective weights of a verdict are those that autograd gives, token by token, in one process.

    update = sum over tokens t of w_t g_t,   g_t = d(loss of token t) / d(weights)

The job saves its updates. Here every g_t is computed alone, in float64, and the w_t are solved for by least squares: no
sketch, no hook, no loss function is shared with the audit.
"""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit.harness import JobServer

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).with_name("weighing_job.py")
RANKS = 2
Key = tuple[int, int]


@dataclass(frozen=True)
class Weighed:
    """One step of a job: each cell's weight as the verdict says it, and each token's by autograd."""

    verdict: dict[Key, float]
    autograd: dict[Key, list[float]]
    residual: float


def weights_by_autograd(saved: dict[str, Any], step: int, accum: int) -> tuple[dict[Key, list[float]], float]:
    """The weight of every token in a saved update, by rank and micro-batch, and what they leave unexplained."""
    import torch

    job = runpy.run_path(str(SCRIPT), run_name="weighing_job")
    model = job["Model"]()
    model.load_state_dict(saved["weights"])
    model = model.double()
    keys, gradients = [], []
    for key in [(rank, micro_batch) for rank in range(RANKS) for micro_batch in range(accum)]:
        inputs, targets = job["batch"](step, *key)
        log_odds = torch.log_softmax(model(inputs), -1)
        for row, column in (targets != job["IGNORED"]).nonzero().tolist():
            token_loss = -log_odds[row, column, targets[row, column]]
            found = torch.autograd.grad(token_loss, list(model.parameters()), retain_graph=True)
            gradients.append(torch.cat([gradient.flatten() for gradient in found]))
            keys.append(key)
    update = torch.cat([saved["update"][name].double().flatten() for name, _ in model.named_parameters()])
    matrix = torch.stack(gradients, 1)
    solution = torch.linalg.lstsq(matrix, update).solution
    weights: dict[Key, list[float]] = {}
    for key, weight in zip(keys, solution.tolist(), strict=True):
        weights.setdefault(key, []).append(weight)
    return weights, float((update - matrix @ solution).norm() / update.norm())


def weigh(server: JobServer, folder: Path, form: str, accum: int = 1, dtype: str = "float32") -> Weighed:
    """Run the job under the audit and weigh the step that the verdict shows in both ways."""
    import torch

    from failuremap.audit import diagnose

    trace, saved = folder / "trace", folder / "saved.pt"
    trace.mkdir()
    args = f"--form {form} --accum {accum} --dtype {dtype} --save {saved}".split()
    result = server.run_job(str(SCRIPT), args, RANKS, trace)
    assert result.ok, result.output
    verdict = diagnose(trace)
    assert verdict.cells_step is not None
    step = verdict.cells_step - 1
    autograd, residual = weights_by_autograd(torch.load(saved)[step], step, accum)
    cells = {(cell.rank, cell.micro_batch): cell.effective_weight for cell in verdict.cells}
    assert set(cells) == set(autograd) and None not in cells.values()
    return Weighed(cells, autograd, residual)  # type: ignore[arg-type]


def largest_difference(verdict: dict[Key, float], autograd: dict[Key, list[float]]) -> float:
    """The largest relative difference between the verdict's weight of a cell and that of any token in it."""
    return max(abs(verdict[key] / weight - 1) for key, weights in autograd.items() for weight in weights)


@pytest.mark.parametrize("accum", [1, 2])
@pytest.mark.parametrize("form", ["means", "summed", "weighted", "unreduced"])
def test_weights_are_those_of_autograd(job_server: JobServer, tmp_path: Path, form: str, accum: int) -> None:
    weighed = weigh(job_server, tmp_path, form, accum)

    assert weighed.residual < 1e-5
    assert largest_difference(weighed.verdict, weighed.autograd) < 0.01


@pytest.mark.parametrize("accum", [1, 2])
def test_in_bfloat16_weights_are_those_of_autograd_within_rounding(
    job_server: JobServer, tmp_path: Path, accum: int
) -> None:
    weighed = weigh(job_server, tmp_path, "means", accum, "bfloat16")

    assert largest_difference(weighed.verdict, weighed.autograd) < 0.03


def test_weights_of_the_wrong_rank_are_told_from_those_of_autograd(job_server: JobServer, tmp_path: Path) -> None:
    weighed = weigh(job_server, tmp_path, "means")
    swapped = {(1 - rank, micro_batch): weight for (rank, micro_batch), weight in weighed.verdict.items()}

    assert largest_difference(swapped, weighed.autograd) > 0.03


def test_autograd_sees_the_counts_of_the_batches(job_server: JobServer, tmp_path: Path) -> None:
    weighed = weigh(job_server, tmp_path, "means")

    for weights in weighed.autograd.values():
        assert weights == pytest.approx([1 / (RANKS * len(weights))] * len(weights), rel=1e-3)
