"""Other ways to split a job: what the audit should say of each, one row a case, right ones and wrong ones."""

from __future__ import annotations

from jobs.expectations import UNSEEN, UNTOLD, Case, right, wrong

NONE = {"tolerance": None}
EXACT = "--loss exact --lengths uneven"
OFFLOAD = "--offload --precision bf16 --accum 2"

# One row a case, as in a table.
# fmt: off
CASES = {
    "pipeline": [
        right("pipeline", "split/stages.py", EXACT, 2, **NONE),
        wrong("pipeline-counts", "split/stages.py", "--schedule 1f1b --lengths uneven", 2,
              "mean-of-microbatch-means", **NONE),
        wrong("pipeline-unscaled", "split/stages.py", "--fault unscaled", 2, "window-sum-not-mean", **NONE),
        right("pipeline-interleaved", "split/stages.py", f"--schedule interleaved --optimizer each {EXACT}", 2, **NONE),
        wrong("pipeline-interleaved-counts", "split/stages.py", "--schedule breadth-first --lengths uneven", 2,
              "mean-of-microbatch-means", **NONE),
        right("pipeline-zero-bubble", "split/stages.py", f"--schedule v --rounds 2 {EXACT}", 2, **NONE),
        wrong("pipeline-zero-bubble-counts", "split/stages.py",
              "--schedule interleaved-zero-bubble --lengths uneven", 2, "mean-of-microbatch-means", **NONE),
        right("pipeline-fsdp", "split/stages.py", f"--replicas fsdp --clip 0.3 {EXACT}", 4, **NONE),
        wrong("pipeline-ddp-counts", "split/stages.py", "--replicas ddp --lengths uneven", 4,
              "mean-of-microbatch-means replica-means-ignore-counts", **NONE),
        right("pipeline-ddp", "split/stages.py", f"--replicas ddp --schedule 1f1b {EXACT}", 4, **NONE),
        wrong("pipeline-ddp-zero-bubble", "split/stages.py", "--replicas ddp --schedule zero-bubble", 4,
              "param-without-hook", **NONE),
        wrong("pipeline-eval", "split/stages.py", "--fault eval", 2, "divided-twice", **NONE),
        wrong("pipeline-one-stage", "split/stages.py", "--replicas hand --fault one-stage", 4,
              "param-without-hook", **NONE),
        right("pipeline-tied", "split/stages.py", f"--replicas hand --tied built {EXACT}", 4, **NONE),
        wrong("pipeline-tied-apart", "split/stages.py", "--tied built --fault tied", 2,
              "tied-copies-not-summed", **NONE),
        Case("pipeline-alike", "split/stages.py", "--tied seed --fault tied", 2, UNTOLD, **NONE),
        wrong("pipeline-clip", "split/stages.py", "--clip 0.3 --fault clip", 2, "norm-misses-shards", **NONE),
    ],
    "pipeline of tensor parallel stages": [
        right("tensor-stages", "split/tensor_stages.py", "", 4, **NONE),
        wrong("tensor-stages-counts", "split/tensor_stages.py", "--uneven", 4, "mean-of-microbatch-means", **NONE),
    ],
    "pipeline by hand": [
        right("hand-stages", "split/hand_stages.py", f"--order last-first {EXACT}", 4, **NONE),
        wrong("hand-stages-counts", "split/hand_stages.py", "--stages 3 --order one-by-one --lengths uneven", 3,
              "mean-of-microbatch-means", **NONE),
        wrong("hand-stages-one", "split/hand_stages.py", "--detach --fault one-stage", 4,
              "param-without-hook", **NONE),
        right("hand-stages-tied", "split/hand_stages.py", f"--tied --detach {EXACT}", 2, **NONE),
        Case("hand-stages-tied-apart", "split/hand_stages.py", "--tied --fault tied", 2, UNTOLD, **NONE),
        Case("hand-stages-twice", "split/hand_stages.py", "--sent twice", 2, UNTOLD, **NONE),
        Case("hand-stages-scaled", "split/hand_stages.py", "--arrival scaled", 2, UNTOLD, **NONE),
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
