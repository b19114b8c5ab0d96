"""The audit's verdict on jobs whose optimizer steps on float32 copies of bfloat16 weights, made by hand."""

from __future__ import annotations

import pytest

from audit.harness import JobServer, audit_case
from jobs.expectations import UNSEEN, Case, right, wrong

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT, NONE = "masters.py", {"tolerance": None}
COUNTS = "replica-means-ignore-counts"
# One row a case, as in a table.
# fmt: off
CASES = [
    right("copies", SCRIPT, "--layout foreach --scale 1024 --max-norm 0.2 --ema", 2, **NONE),
    right("copies-reduced-after", SCRIPT, "--own-scales --scale 64 --reduce after --plain", 2, **NONE),
    right("copies-added-up", SCRIPT, "--accum 2 --collect copies --opt adamw", 2, **NONE),
    right("copies-of-float16", SCRIPT, "--dtype float16 --scale 512 --accum 2", 2, **NONE),
    right("copies-skipped", SCRIPT, "--skip 2 --steps 6", 2, **NONE),
    right("flat", SCRIPT, "--layout flat --reduce after --max-norm 0.2 --mean", 2, **NONE),
    right("flat-groups", SCRIPT, "--layout groups --accum 2 --collect copies --scale 256", 3, **NONE),
    right("copies-of-a-buffer", SCRIPT, "--accum 2 --collect buffer --scale 64 --max-norm 0.2", 2, **NONE),
    wrong("copies-counts", SCRIPT, "--fault counts", 2, COUNTS, **NONE),
    wrong("copies-never-synced", SCRIPT, "--fault never-sync", 2, "never-synchronised", **NONE),
    wrong("copies-skip-bias", SCRIPT, "--fault skip-bias", 2, "param-without-hook", **NONE),
    wrong("copies-overwritten", SCRIPT, "--accum 2 --collect copies --fault overwritten", 2,
          "accumulator-overwritten", **NONE),
    # these leave a rule without a name: one factor for each rank, and ranks that unscale by it after they are added up
    wrong("copies-unscaled-alike", SCRIPT, "--own-scales --scale 64 --reduce after --fault unscaled-alike", 2, "",
          **NONE),
    wrong("copies-unscaled-late", SCRIPT, "--own-scales --scale 64", 2, "", **NONE),
    wrong("flat-counts", SCRIPT, "--layout flat --accum 2 --fault counts", 2, f"mean-of-microbatch-means {COUNTS}",
          **NONE),
    Case("copies-twice", SCRIPT, "--twins", 2, UNSEEN, **NONE),
    Case("copies-never-back", SCRIPT, "--fault never-back", 2, UNSEEN, **NONE),
]
# fmt: on
SAID = {
    "copies-twice": "the optimizer steps on 60 tensors that are no parameter of the model",
    "copies-never-back": "that no longer equal the model's own",
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_verdict(job_server: JobServer, case: Case) -> None:
    got = audit_case(job_server, case)

    assert got.as_expected, f"{got.outcome} {got.slugs}: {got.sentence} {got.reasons}; expected {case.outcomes}"
    assert SAID.get(case.name, "") in "\n".join(got.reasons)
