"""The audit's verdict on losses that no function of PyTorch makes: policy gradients, fused and compiled ones."""

from __future__ import annotations

import pytest

from audit.harness import JobServer, audit_case
from jobs.expectations import UNSEEN, UNTOLD, Case, right, wrong

pytestmark = pytest.mark.torch

# One row a case, as in a table.
# fmt: off
CASES = [
    right("checkpointed-loss-reentrant", "checkpointed_loss.py", "reentrant", 2, reference="checkpoint"),
    right("checkpointed-loss-by-hand", "checkpointed_loss.py", "checkpoint --by-hand", 2),
    wrong("checkpointed-loss-per-rank", "checkpointed_loss.py", "reentrant --by-hand --per-rank", 2,
          "replica-means-ignore-counts", reference="checkpoint"),
    wrong("compiled-loss-per-rank", "checkpointed_loss.py", "aot_eager --by-hand --per-rank", 2,
          "replica-means-ignore-counts", reference="checkpoint", timeout=180.0),
    right("fused-loss", "fused_loss.py", "again", 2),
    wrong("fused-loss-per-rank", "fused_loss.py", "again --per-rank", 2, "replica-means-ignore-counts",
          reference="again"),
    Case("fused-loss-smoothed", "fused_loss.py", "again --smoothing 0.01", 2, UNSEEN),
    Case("fused-loss-half-smoothed", "fused_loss.py", "ahead --half --smoothing 0.1", 2, UNSEEN, tolerance=None),
    right("fused-loss-ahead", "fused_loss.py", "ahead", 2),
    wrong("fused-loss-ahead-half", "fused_loss.py", "ahead --half --per-rank", 2, "replica-means-ignore-counts",
          reference="ahead", tolerance=None),
    right("fused-loss-half", "fused_loss.py", "again --half", 2, tolerance=None),
    right("compiled-head", "checkpointed_loss.py", "whole", 2, reference="checkpoint", timeout=180.0),
    Case("vocabulary-parallel", "vocab_parallel.py", "", 2, UNTOLD, tolerance=None),
    Case("vocabulary-parallel-twice", "vocab_parallel.py", "", 4, UNTOLD, tolerance=None),
    right("vocabulary-parallel-alone", "vocab_parallel.py", "--alone", 2, tolerance=None),
    wrong("vocabulary-parallel-alone-per-rank", "vocab_parallel.py", "--alone --per-rank", 2,
          "replica-means-ignore-counts", tolerance=None),
    right("policy-gradient", "policy_gradient.py", "token --some-idle --accum 2", 2,
          reference="token --some-idle --accum 2"),
    right("policy-gradient-answers", "policy_gradient.py", "answer --uneven", 2),
    right("policy-gradient-whole-answers", "policy_gradient.py", "whole", 3),
    right("policy-gradient-entropy", "policy_gradient.py", "token --entropy 0.01", 2),
    wrong("policy-gradient-per-rank", "policy_gradient.py", "token --per-rank", 2, "replica-means-ignore-counts",
          reference="token"),
    wrong("policy-gradient-micro-batches", "policy_gradient.py", "token --per-rank --accum 2", 2,
          "mean-of-microbatch-means replica-means-ignore-counts", reference="token --accum 2"),
    wrong("policy-gradient-answers-per-rank", "policy_gradient.py", "answer --uneven --per-rank", 2,
          "replica-means-ignore-counts", reference="answer"),
    Case("policy-gradient-premultiplied", "policy_gradient.py", "premultiplied", 2, UNSEEN),
    Case("policy-gradient-divided", "policy_gradient.py", "divided", 2, UNTOLD, tolerance=None),
]
# fmt: on
SAID = {
    "policy-gradient": "Apart from the script's own number for each, every token weighs the same: the update is the "
    "mean over all tokens.",
    "policy-gradient-answers": "Apart from the script's own number for each, every sequence weighs the same: the "
    "update is the mean over all sequences.",
}
QUICK = ("policy-gradient", "policy-gradient-per-rank", "checkpointed-loss-reentrant")
PARAMS = [pytest.param(c, id=c.name, marks=() if c.name in QUICK else pytest.mark.slow) for c in CASES]


@pytest.mark.parametrize("case", PARAMS)
def test_verdict(job_server: JobServer, case: Case) -> None:
    got = audit_case(job_server, case)

    assert got.sentence == SAID.get(case.name, got.sentence)
    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence}; expected {case.outcomes} {case.slugs}"
