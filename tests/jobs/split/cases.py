"""Other ways to split a job: what the audit should say of each, one row a case, right ones and wrong ones."""

from __future__ import annotations

from jobs.expectations import UNSEEN, UNTOLD, Case, right, wrong

NONE = {"tolerance": None}
OFFLOAD = "--offload --precision bf16 --accum 2"

# One row a case, as in a table.
# fmt: off
CASES = {
    "pipeline": [
        Case("pipeline-gpipe", "split/stages.py", "", 2, UNSEEN, **NONE),
        Case("pipeline-1f1b", "split/stages.py", "--schedule 1f1b", 2, UNSEEN, **NONE),
        Case("pipeline-unscaled", "split/stages.py", "--unscaled", 2, UNSEEN, **NONE),
    ],
    "context": [
        right("context", "split/context.py", "", 2, **NONE),
        right("context-two-pairs", "split/context.py", "", 4, **NONE),
        wrong("context-averaged", "split/context.py", "--averaged", 2, "global-denominator-averaged-again", **NONE),
        Case("context-two-pairs-averaged", "split/context.py", "--averaged", 4, UNTOLD, **NONE),
        Case("context-detached", "split/context.py", "--detached", 2, UNTOLD, **NONE),
    ],
    "experts": [
        Case("experts-in-groups", "split/expert_groups.py", "", 4, UNTOLD, **NONE),
        wrong("experts-own-divisor", "split/expert_groups.py", "--own-divisor", 4, "expert-divisor-misses-ep", **NONE),
        wrong("experts-uneven", "split/expert_groups.py", "--uneven", 4, "replica-means-ignore-counts", **NONE),
    ],
    "side by side": [
        Case("two-models", "split/two_models.py", "", 4, UNSEEN, **NONE),
        Case("two-models-uneven", "split/two_models.py", "--uneven", 4, UNSEEN, **NONE),
    ],
    "sequence and loss parallel": [
        right("loss-parallel", "tp_lm.py", "--sequence --loss-parallel --accum 2", 2, **NONE),
        wrong("loss-parallel-counts", "tp_lm.py", "--sequence --loss-parallel --fault counts --accum 2", 2,
              "mean-of-microbatch-means", **NONE),
    ],
    "sharded optimizer": [
        right("zero-redundancy-again", "wrapped_optimizer.py", "zero", 2, unit="example", **NONE),
        wrong("zero-redundancy-uneven", "wrapped_optimizer.py", "zero --uneven", 2, "replica-means-ignore-counts",
              unit="example", **NONE),
    ],
    "offload and mixed precision": [
        right("offload", "fsdp_lm.py", f"{OFFLOAD} --clip norm", 2, **NONE),
        right("offload-replicated", "fsdp_lm.py", f"{OFFLOAD} --replicas 2", 4, **NONE),
        wrong("offload-counts", "fsdp_lm.py", f"{OFFLOAD} --fault counts", 2,
              "mean-of-microbatch-means replica-means-ignore-counts", **NONE),
    ],
}
# fmt: on
