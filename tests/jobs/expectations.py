"""What the audit should say of each job: one row a case. The scripts themselves know nothing of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RIGHT, WRONG = ("right",), ("wrong",)


@dataclass(frozen=True)
class Case:
    """A training script, how it is run, and the verdicts that are true of it."""

    name: str
    script: str
    args: str
    nproc: int | None
    """Ranks; None: the script starts its processes itself."""
    outcomes: tuple[str, ...]
    slugs: tuple[str, ...] = ()
    """Mechanisms that may name the fault, the planted one first, and no others; none: a rule that has no name."""
    planted: bool = True
    """Whether the first of them must be among those named; else any of them will do."""
    reference: str | None = None
    """Arguments with which one process trains the right weights; None: `args` without the fault and accumulation."""
    tolerance: float | None = 2e-3
    """Distance of the trained weights from the reference's below which a job counts as right; None: no reference."""
    unit: Literal["token", "example", "sequence"] | None = None
    promise: Literal["mean", "sum"] = "mean"
    timeout: float = 60.0
    slow: bool = False

    @property
    def is_right(self) -> bool:
        """The job does what it should, whatever the audit can see of it."""
        return "wrong" not in self.outcomes


def command(case: Case, seed: int) -> list[str]:
    """The arguments of a case, with its seed."""
    return [*case.args.split(), "--seed", str(seed)]


def reference_command(case: Case, seed: int) -> list[str]:
    """The arguments with which one process trains on the same global batches, as it should be."""
    if case.reference is not None:
        return [*case.reference.split(), "--seed", str(seed)]
    words = case.args.split()
    accum = ["--accum", "1"] if "--accum" in words or case.script == "accum_lm.py" else []
    for option in ("--fault", "--accum"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    return [*words, *accum, "--seed", str(seed)]


def right(name: str, script: str, args: str, nproc: int | None, **more) -> Case:
    """A job in which every unit has the same weight."""
    return Case(name, script, args, nproc, RIGHT, **more)


def wrong(name: str, script: str, args: str, nproc: int | None, slugs: str, **more) -> Case:
    """A job with a planted fault, and the mechanisms that name it."""
    return Case(name, script, args, nproc, WRONG, tuple(slugs.split()), **more)


# One row a case, as in a table.
# fmt: off
MANUAL = [
    right("manual-sum", "manual_lm.py", "", 2),
    right("manual-sum-4-ranks", "manual_lm.py", "", 4),
    right("manual-mean", "manual_lm.py", "--form mean", 2),
    right("manual-weighted", "manual_lm.py", "--form weighted", 3),
    right("manual-flat", "manual_lm.py", "--reduce flat --accum 2", 3),
    right("manual-async", "manual_lm.py", "--reduce async --accum 3", 2),
    right("manual-broadcast-init", "manual_lm.py", "--init broadcast", 2, tolerance=None),
    right("manual-clip-norm", "manual_lm.py", "--clip norm --max-norm 0.2", 2),
    right("manual-clip-value", "manual_lm.py", "--clip value --accum 2", 2),
    right("manual-clip-hand", "manual_lm.py", "--clip hand --max-norm 0.2 --form mean", 4),
    right("manual-equal-means", "manual_lm.py", "--fault counts --lengths equal --accum 2", 2),
    right("manual-empty-rank", "manual_lm.py", "--lengths emptyhalf", 2),
    right("manual-bfloat16", "manual_lm.py", "--dtype bfloat16", 2, tolerance=0.06),
    right("manual-one-process", "manual_lm.py", "", 1),
    wrong("manual-counts", "manual_lm.py", "--fault counts", 2, "replica-means-ignore-counts"),
    wrong("manual-counts-4-ranks", "manual_lm.py", "--fault counts", 4, "replica-means-ignore-counts"),
    wrong("manual-counts-bfloat16", "manual_lm.py", "--fault counts --dtype bfloat16", 2,
          "replica-means-ignore-counts", tolerance=0.06),
    wrong("manual-counts-skew-2", "manual_lm.py", "--fault counts --lengths skew2", 2, "replica-means-ignore-counts",
          tolerance=0.0001),
    wrong("manual-replicas-summed", "manual_lm.py", "--fault replicas-summed --lengths equal", 3, "replicas-summed"),
    wrong("manual-replicas-summed-uneven", "manual_lm.py", "--fault replicas-summed", 2, "replicas-summed"),
    wrong("manual-averaged-again", "manual_lm.py", "--fault averaged-again", 2,
          "global-denominator-averaged-again averaged-over-ranks-twice"),
    wrong("manual-averaged-again-3x2", "manual_lm.py", "--fault averaged-again --accum 2", 3,
          "global-denominator-averaged-again averaged-over-ranks-twice"),
    wrong("manual-world-twice", "manual_lm.py", "--fault world-twice --form mean", 3,
          "averaged-over-ranks-twice global-denominator-averaged-again"),
    # A factor R too many in the loss leaves the same update as one in the reduction.
    wrong("manual-times-world", "manual_lm.py", "--fault times-world", 3, "compensation-without-cause replicas-summed",
          planted=False),
    wrong("manual-never-sync", "manual_lm.py", "--fault never-sync", 2, "never-synchronised"),
    wrong("manual-never-sync-4-ranks", "manual_lm.py", "--fault never-sync", 4, "never-synchronised"),
    wrong("manual-drop-rank", "manual_lm.py", "--fault drop-rank", 3, "rank-dropped"),
    wrong("manual-drop-rank-mean", "manual_lm.py", "--fault drop-rank --form mean", 2,
          "rank-dropped first-rank-broadcast"),
    wrong("manual-broadcast-first", "manual_lm.py", "--fault broadcast-first", 2, "first-rank-broadcast rank-dropped"),
    wrong("manual-skip-bias", "manual_lm.py", "--fault skip-bias", 2, "param-without-hook"),
    wrong("manual-skip-embedding", "manual_lm.py", "--fault skip-embedding --accum 2", 2, "param-without-hook"),
    wrong("manual-clip-before", "manual_lm.py", "--fault clip-before --clip norm --max-norm 0.2", 2,
          "clip-in-wrong-place"),
    wrong("manual-clip-before-hand", "manual_lm.py", "--fault clip-before --clip hand --max-norm 0.2", 2,
          "clip-in-wrong-place"),
    wrong("manual-no-zero", "manual_lm.py", "--fault no-zero", 2, "stale-gradient-leaks"),
    wrong("manual-delayed", "manual_lm.py", "--fault delayed", 2, "previous-gradient-applied"),
    wrong("manual-same-data", "manual_lm.py", "--fault same-data", 2, "same-data-on-all-ranks"),
    wrong("manual-no-broadcast", "manual_lm.py", "--fault no-broadcast", 2, "replicas-start-different"),
    wrong("manual-reduce-every", "manual_lm.py", "--fault reduce-every --accum 3", 2, "reduced-again"),
    wrong("manual-masked-mean", "manual_lm.py", "--loss masked", 2, "replica-means-ignore-counts", reference=""),
    wrong("manual-empty-rank-mean", "manual_lm.py", "--fault counts --lengths emptyhalf", 2,
          "divisor-counts-idle-parts global-denominator-averaged-again replica-means-ignore-counts"),
    wrong("manual-empty-rank-nan", "manual_lm.py", "--loss masked --lengths emptyhalf", 2, "zero-total",
          reference="--lengths emptyhalf"),
]

DDP = [
    right("ddp", "ddp_lm.py", "", 2),
    right("ddp-none-reduction", "ddp_lm.py", "--loss none", 3),
    right("ddp-no-sync", "ddp_lm.py", "--accum 3", 2),
    right("ddp-no-sync-4x3", "ddp_lm.py", "--accum 3", 4),
    right("ddp-no-sync-3x2", "ddp_lm.py", "--accum 2 --loss none", 3),
    right("ddp-sync-every", "ddp_lm.py", "--accum 2 --sync every", 2),
    right("ddp-static-graph", "ddp_lm.py", "--static-graph", 2),
    right("ddp-bucket-view", "ddp_lm.py", "--bucket-view --accum 2", 2),
    right("ddp-fp16-hook", "ddp_lm.py", "--hook fp16", 2, tolerance=0.02),
    right("ddp-custom-hook", "ddp_lm.py", "--hook custom --accum 2", 2),
    right("ddp-unused", "ddp_lm.py", "--unused", 2),
    right("ddp-frozen", "ddp_lm.py", "--frozen", 2),
    right("ddp-tied", "ddp_lm.py", "--tied", 2),
    right("ddp-checkpointing", "ddp_lm.py", "--checkpointing", 2),
    right("ddp-compile", "ddp_lm.py", "--compile", 2),
    right("ddp-autocast", "ddp_lm.py", "--autocast", 2, tolerance=0.02),
    right("ddp-bfloat16", "ddp_lm.py", "--dtype bfloat16", 2, tolerance=0.06),
    right("ddp-scaler", "ddp_lm.py", "--scaler --opt two", 2),
    right("ddp-clip-norm", "ddp_lm.py", "--clip norm --max-norm 0.2 --scaler", 2),
    right("ddp-clip-value", "ddp_lm.py", "--clip value", 2),
    right("ddp-adamw", "ddp_lm.py", "--opt adamw --accum 2", 2, tolerance=0.01),
    right("ddp-groups", "ddp_lm.py", "--opt groups", 2),
    right("ddp-keep-zeros", "ddp_lm.py", "--keep-zeros --accum 2", 2),
    right("ddp-label-smoothing", "ddp_lm.py", "--smoothing 0.1", 2),
    right("ddp-equal-means", "ddp_lm.py", "--loss mean --lengths equal --accum 2", 2),
    right("ddp-loss-times-10", "ddp_lm.py", "--loss-scale 10 --lr 0.02", 2),
    right("ddp-empty-rank", "ddp_lm.py", "--lengths emptyhalf", 2),
    right("ddp-step-left-out", "ddp_lm.py", "--skip 1", 2),
    right("ddp-step-left-out-accum", "ddp_lm.py", "--skip 2 --accum 3 --clip norm --max-norm 0.2", 2),
    wrong("ddp-counts", "ddp_lm.py", "--loss mean", 2, "replica-means-ignore-counts", reference=""),
    wrong("ddp-counts-4-ranks", "ddp_lm.py", "--loss mean", 4, "replica-means-ignore-counts", reference=""),
    wrong("ddp-counts-smoothing", "ddp_lm.py", "--loss mean --smoothing 0.1 --opt adamw", 3,
          "replica-means-ignore-counts", reference="--smoothing 0.1 --opt adamw", tolerance=0.06),
    wrong("ddp-counts-bfloat16", "ddp_lm.py", "--loss mean --dtype bfloat16", 2, "replica-means-ignore-counts",
          reference="--dtype bfloat16", tolerance=0.06),
    wrong("ddp-counts-fp16-hook", "ddp_lm.py", "--loss mean --hook fp16", 2, "replica-means-ignore-counts",
          reference=""),
    wrong("ddp-counts-skew-2", "ddp_lm.py", "--loss mean --lengths skew2", 2, "replica-means-ignore-counts",
          reference="--lengths skew2", tolerance=0.0001),
    wrong("ddp-means-of-means-2x2", "ddp_lm.py", "--loss mean --accum 2", 2,
          "mean-of-microbatch-means replica-means-ignore-counts", reference=""),
    wrong("ddp-means-of-means-3x4", "ddp_lm.py", "--loss mean --accum 4", 3,
          "mean-of-microbatch-means replica-means-ignore-counts", reference=""),
    wrong("ddp-window-sum", "ddp_lm.py", "--loss window-sum --accum 3 --lengths equal", 2, "window-sum-not-mean",
          reference="--lengths equal"),
    wrong("ddp-averaged-again", "ddp_lm.py", "--fault averaged-again", 2,
          "global-denominator-averaged-again averaged-over-ranks-twice"),
    wrong("ddp-averaged-again-4x2", "ddp_lm.py", "--fault averaged-again --accum 2", 4,
          "global-denominator-averaged-again averaged-over-ranks-twice"),
    wrong("ddp-times-world", "ddp_lm.py", "--fault times-world", 3, "compensation-without-cause replicas-summed"),
    wrong("ddp-world-twice", "ddp_lm.py", "--fault world-twice", 2,
          "averaged-over-ranks-twice global-denominator-averaged-again"),
    wrong("ddp-window-twice", "ddp_lm.py", "--fault window-twice --accum 3", 2, "divided-twice"),
    wrong("ddp-zero-inside", "ddp_lm.py", "--fault zero-inside --accum 3 --sync every", 2, "accumulator-overwritten"),
    wrong("ddp-counts-step-left-out", "ddp_lm.py", "--loss mean --skip 1", 2, "replica-means-ignore-counts",
          reference="--skip 1"),
    wrong("ddp-no-ddp", "ddp_lm.py", "--fault no-ddp", 2, "reducer-bypassed"),
    wrong("ddp-no-sync-forever", "ddp_lm.py", "--fault never --accum 2", 2, "never-synchronised"),
    wrong("ddp-bypass", "ddp_lm.py", "--fault bypass", 2, "reducer-bypassed"),
    wrong("ddp-bypass-accum", "ddp_lm.py", "--fault bypass --accum 2", 3, "reducer-bypassed"),
    wrong("ddp-sync-first", "ddp_lm.py", "--fault sync-first --accum 2", 2, "sync-on-wrong-microbatch"),
    wrong("ddp-sync-second-of-3", "ddp_lm.py", "--fault sync-second --accum 3", 2, "sync-on-wrong-microbatch"),
    wrong("ddp-sync-late", "ddp_lm.py", "--fault sync-late --accum 2", 2, "never-synchronised"),
    wrong("ddp-forward-outside", "ddp_lm.py", "--fault forward-outside --accum 2", 2,
          "forward-outside-sync-context never-synchronised reducer-bypassed"),
    wrong("ddp-late-param", "ddp_lm.py", "--fault late-param", 2, "param-without-hook", tolerance=None),
    wrong("ddp-head-outside", "ddp_lm.py", "--fault head-outside", 2, "param-without-hook"),
    wrong("ddp-no-zero", "ddp_lm.py", "--fault no-zero", 2, "stale-gradient-leaks"),
    wrong("ddp-no-zero-accum", "ddp_lm.py", "--fault no-zero --accum 2", 2, "stale-gradient-leaks"),
    wrong("ddp-delayed", "ddp_lm.py", "--fault delayed", 2, "previous-gradient-applied"),
    wrong("ddp-same-data", "ddp_lm.py", "--fault same-data", 2, "same-data-on-all-ranks"),
    wrong("ddp-empty-rank-mean", "ddp_lm.py", "--loss mean --lengths emptyhalf", 2,
          "divisor-counts-idle-parts global-denominator-averaged-again replica-means-ignore-counts",
          reference="--lengths emptyhalf"),
]

ACCUMULATION = [
    right("accum", "accum_lm.py", "", 1),
    right("accum-3-clip", "accum_lm.py", "--accum 3 --clip 0.5", 1),
    right("accum-equal-means", "accum_lm.py", "--fault means --lengths equal", 1),
    right("accum-step-left-out", "accum_lm.py", "--skip 1", 1),
    right("accum-step-left-out-at-first", "accum_lm.py", "--skip 0 --accum 1", 1),
    right("accum-none", "accum_lm.py", "--accum 1", 1),
    right("accum-bfloat16", "accum_lm.py", "--accum 2 --dtype bfloat16", 1, tolerance=0.06),
    wrong("accum-means", "accum_lm.py", "--fault means", 1, "mean-of-microbatch-means"),
    wrong("accum-means-2", "accum_lm.py", "--fault means --accum 2", 1, "mean-of-microbatch-means"),
    wrong("accum-skew-2", "accum_lm.py", "--fault means --accum 2 --lengths skew2", 1, "mean-of-microbatch-means",
          tolerance=0.0001),
    wrong("accum-window-sum", "accum_lm.py", "--fault window-sum --lengths equal", 1, "window-sum-not-mean"),
    wrong("accum-window-sum-uneven", "accum_lm.py", "--fault window-sum --accum 3", 1, "window-sum-not-mean"),
    wrong("accum-divided-twice", "accum_lm.py", "--fault divided-twice", 1, "divided-twice"),
    wrong("accum-mean-divided-twice", "accum_lm.py", "--fault mean-twice --lengths equal", 1, "divided-twice"),
    wrong("accum-last-only", "accum_lm.py", "--fault last-only", 1, "accumulator-overwritten"),
    wrong("accum-last-only-step-left-out", "accum_lm.py", "--fault last-only --skip 1", 1, "accumulator-overwritten"),
    wrong("accum-first-only", "accum_lm.py", "--fault first-only", 1, "only-first-microbatch-kept"),
    wrong("accum-no-zero", "accum_lm.py", "--fault no-zero --accum 2", 1, "stale-gradient-leaks"),
    wrong("accum-delayed", "accum_lm.py", "--fault delayed --accum 2", 1, "previous-gradient-applied"),
    wrong("accum-clip-each", "accum_lm.py", "--fault clip-each --accum 2", 1, "clip-in-wrong-place"),
]

SILENT = ("right", "cannot tell")
UNTOLD = ("cannot tell",)
UNSEEN = ("not measured", "cannot tell")

OTHERS = [
    right("gpt-2-ranks", "pretrain_gpt.py", "", 2, tolerance=0.01),
    right("gpt-4-ranks-sgd", "pretrain_gpt.py", "--optim=sgd --lr=0.1", 4),
    right("gpt-one-process", "pretrain_gpt.py", "--optim=sgd --lr=0.1", 1),
    wrong("gpt-window-sum", "pretrain_gpt.py", "--optim=sgd --lr=0.1 --grad-clip=0 --divide-loss=0", 2,
          "window-sum-not-mean compensation-without-cause", reference="--optim=sgd --lr=0.1 --grad-clip=0"),
    wrong("gpt-window-sum-clipped", "pretrain_gpt.py", "--optim=sgd --lr=0.1 --grad-clip=0.5 --divide-loss=0", 1,
          "window-sum-not-mean", tolerance=None),
    right("gpt-float16", "pretrain_gpt.py", "--dtype=float16", 2, tolerance=None, slow=True),
    wrong("gpt-float16-window-sum", "pretrain_gpt.py", "--dtype=float16 --optim=sgd --lr=0.1 --divide-loss=0", 2,
          "window-sum-not-mean", tolerance=None, slow=True),
    right("finetune-items-2x2", "finetune_trainer.py", "--num-items global --gradient-accumulation-steps 2", 2,
          reference=""),
    right("finetune-items-3x1", "finetune_trainer.py", "--num-items global", 3, reference=""),
    right("finetune-items-1x3", "finetune_trainer.py", "--num-items local --gradient-accumulation-steps 3", 1,
          reference=""),
    right("finetune-all-outputs", "finetune_trainer.py", "--num-items global --returns all --find-unused", 2,
          reference=""),
    wrong("finetune-all-outputs-means", "finetune_trainer.py", "--returns all --find-unused", 2,
          "replica-means-ignore-counts", reference=""),
    wrong("finetune-means-2x2", "finetune_trainer.py", "--gradient-accumulation-steps 2", 2,
          "mean-of-microbatch-means replica-means-ignore-counts", reference=""),
    wrong("finetune-means-1x3", "finetune_trainer.py", "--gradient-accumulation-steps 3", 1,
          "mean-of-microbatch-means", reference=""),
    wrong("finetune-items-per-device", "finetune_trainer.py", "--num-items local --gradient-accumulation-steps 2", 2,
          "replica-means-ignore-counts", reference=""),
    right("images", "images_ddp.py", "", 2, unit="example"),
    right("images-4-ranks", "images_ddp.py", "", 4, unit="example"),
    right("images-sum", "images_ddp.py", "--sum-loss --lr 0.002", 1, unit="example", promise="sum"),
    wrong("images-sum-averaged", "images_ddp.py", "--sum-loss --lr 0.002", 2,
          "partials-averaged averaged-over-ranks-twice", unit="example", promise="sum"),
    right("spawned", "regression_spawn.py", "", None, unit="example", reference="--procs 1", timeout=180.0, slow=True),
    wrong("spawned-uneven", "regression_spawn.py", "--uneven", None, "replica-means-ignore-counts", unit="example",
          reference="--procs 1", timeout=180.0, slow=True),
    right("gan", "gan.py", "", 2, unit="example"),
    right("gan-3-ranks", "gan.py", "--d-steps 1", 3, unit="example"),
    wrong("gan-generator-alone", "gan.py", "--forget-generator", 2, "reducer-bypassed", unit="example",
          reference=""),
    right("class-weights", "class_weights.py", "", 2),
    wrong("class-weights-local", "class_weights.py", "--local", 2, "replica-means-ignore-counts", reference=""),
    right("recommender", "recommender.py", "", 2, unit="example"),
    right("recommender-pos-weight", "recommender.py", "--pos-weight", 3, unit="example"),
    Case("two-pass-sam", "two_pass.py", "sam", 2, SILENT),
    Case("two-pass-lbfgs", "two_pass.py", "lbfgs", 2, SILENT, tolerance=0.01),
    right("closure", "two_pass.py", "closure", 2),
    wrong("closure-unsynced", "two_pass.py", "closure --unsynced", 2, "never-synchronised", reference="closure"),
    right("staged-ddp", "staged_finetune.py", "", 2),
    right("staged-manual", "staged_finetune.py", "--manual --accum 2", 3),
    wrong("staged-late-group", "staged_finetune.py", "--manual --late-group", 2, "param-without-hook",
          reference=""),
    right("epoch-tail", "epoch_accum.py", "", 1, reference="--micro 36 --accum 1"),
    right("epoch-tail-ddp", "epoch_accum.py", "", 2, reference="--micro 36 --accum 1"),
    wrong("epoch-tail-full-divisor", "epoch_accum.py", "--full-divisor", 1, "partial-window-full-divisor",
          reference="--micro 36 --accum 1"),
    wrong("epoch-tail-full-divisor-ddp", "epoch_accum.py", "--full-divisor", 2, "partial-window-full-divisor",
          reference="--micro 36 --accum 1"),
    right("loss-in-module", "aux_loss.py", "", 2),
    right("aux-loss", "aux_loss.py", "--aux 0.01", 2),
    right("l2-by-hand", "aux_loss.py", "--l2 1e-3 --aux 0.01", 3),
    wrong("aux-loss-own-count", "aux_loss.py", "--aux 0.01 --own-count", 2, "replica-means-ignore-counts",
          reference="--aux 0.01"),
    right("join", "uneven_join.py", "", 3, unit="example", tolerance=None),
    wrong("join-keep-divisor", "uneven_join.py", "--keep-divisor", 3, "departed-rank-counted", unit="example",
          tolerance=None),
    right("handmade-loss", "handmade_loss.py", "", 2),
    right("handmade-loss-smoothed", "handmade_loss.py", "--form smoothed", 2),
    right("handmade-loss-logsumexp", "handmade_loss.py", "--form logsumexp", 3),
    wrong("handmade-loss-per-rank", "handmade_loss.py", "--per-rank", 2, "replica-means-ignore-counts", reference=""),
    wrong("handmade-loss-logsumexp-per-rank", "handmade_loss.py", "--form logsumexp --per-rank", 2,
          "replica-means-ignore-counts", reference="--form logsumexp"),
    right("handmade-loss-rewarded", "handmade_loss.py", "--form rewarded", 2),
    Case("handmade-loss-one-reward-a-rank", "handmade_loss.py", "--form rewarded-rank", 2, UNSEEN, tolerance=None),
    right("hidden-loss", "handmade_loss.py", "--form fused", 2),
    right("hidden-loss-logits", "handmade_loss.py", "--form kept", 3),
    right("hidden-loss-log", "handmade_loss.py", "--form log", 2),
    wrong("hidden-loss-per-rank", "handmade_loss.py", "--form fused --per-rank", 2, "replica-means-ignore-counts",
          reference="--form fused"),
    wrong("hidden-loss-log-per-rank", "handmade_loss.py", "--form log --per-rank", 2, "replica-means-ignore-counts",
          reference="--form log"),
    Case("hidden-loss-temperature", "handmade_loss.py", "--form hot", 2, UNTOLD, slow=True),
    Case("hidden-loss-focal", "handmade_loss.py", "--form focal", 2, UNSEEN),
    # Two numbers a row, and two ranks: a loss that adds up the rows looks like replicas that are summed.
    Case("keypoints", "keypoints.py", "", 2, UNTOLD),
    right("keypoints-3-ranks", "keypoints.py", "", 3, slow=True),
    Case("keypoints-ramp", "keypoints.py", "--ramp", 2, UNTOLD),
    wrong("keypoints-summed", "keypoints.py", "--summed", 2, "replicas-summed", reference="--summed", slow=True),
    right("preferences", "preferences.py", "", 2, unit="example"),
    wrong("preferences-uneven", "preferences.py", "--uneven", 2, "replica-means-ignore-counts", unit="example",
          reference=""),
]

# Scripts much unlike the ones above; many of them were written to break the audit.
UNUSUAL = [
    right("grad-logged", "gradient_log.py", "", 2, unit="example"),
    right("grad-logged-one-loss", "gradient_log.py", "--one-loss", 1, unit="example"),
    right("grad-logged-all", "gradient_log.py", "--log-all", 2, unit="example"),
    right("meta-learning", "meta_learning.py", "", 1, unit="example"),
    right("meta-learning-first-order", "meta_learning.py", "--first-order", 1, unit="example"),
    right("loader-workers", "loader_workers.py", "", 1, unit="example"),
    right("loader-workers-ddp", "loader_workers.py", "", 2, unit="example"),
    wrong("loader-no-sampler", "loader_workers.py", "--no-sampler", 2, "same-data-on-all-ranks", unit="example",
          reference=""),
    right("adaptive-clip", "adaptive_clip.py", "", 2, unit="example"),
    right("adaptive-clip-one-process", "adaptive_clip.py", "--clip 0.02", 1, unit="example"),
    wrong("adaptive-clip-before", "adaptive_clip.py", "--before", 2, "", unit="example", reference=""),
    right("lookahead", "wrapped_optimizer.py", "lookahead", 2, unit="example"),
    right("sam-optimizer", "wrapped_optimizer.py", "sam", 2, unit="example"),
    right("zero-redundancy", "wrapped_optimizer.py", "zero", 2, unit="example"),
    right("step-in-backward", "wrapped_optimizer.py", "in-backward", 2, unit="example"),
    wrong("step-in-backward-uneven", "wrapped_optimizer.py", "in-backward --uneven", 2, "replica-means-ignore-counts",
          unit="example"),
    wrong("lookahead-uneven", "wrapped_optimizer.py", "lookahead --uneven", 2, "replica-means-ignore-counts",
          unit="example"),
    right("deep-supervision", "deep_supervision.py", "", 1, unit="example"),
    right("dcgan", "dcgan.py", "", 2, unit="example"),
    wrong("dcgan-unsynced-fake", "dcgan.py", "--unsynced-fake", 2, "sync-on-wrong-microbatch", unit="example",
          reference=""),
    right("recurrent", "recurrent.py", "", 2),
    wrong("recurrent-forgotten-zero", "recurrent.py", "--wait", 2, "stale-gradient-leaks", reference=""),
    right("distill", "distill.py", "", 2, unit="example"),
    wrong("distill-uneven", "distill.py", "--uneven", 2, "replica-means-ignore-counts", unit="example", reference=""),
    right("detector", "detector.py", "", 2),
    wrong("detector-own-boxes", "detector.py", "--own-boxes", 2, "replica-means-ignore-counts", reference=""),
    right("own-reduction", "own_reduction.py", "--accum 2", 2),
    right("divided-after", "own_reduction.py", "--divide after", 3),
    wrong("reduce-to-first", "own_reduction.py", "--fault reduce-to-first", 2, ""),
    wrong("reduce-in-pairs", "own_reduction.py", "--fault pair", 3, ""),
    wrong("bucket-lost", "own_reduction.py", "--fault bucket-lost", 2, "param-without-hook"),
    wrong("flat-tail-lost", "own_reduction.py", "--fault tail-lost", 2, ""),
    wrong("tied-twice", "own_reduction.py", "--fault tied-twice", 2, ""),
    wrong("crossed-order", "own_reduction.py", "--fault crossed", 2, "misaligned-shards"),
    wrong("copy-reduced", "own_reduction.py", "--fault copy", 2, "result-lost"),
    wrong("clip-some-before", "own_reduction.py", "--fault clip-some", 2, ""),
    wrong("rank-lost-once", "own_reduction.py", "--fault one-step", 2, "rank-dropped first-rank-broadcast"),
    wrong("hook-on-one-rank", "own_reduction.py", "--fault hook-on-one", 2, ""),
    wrong("weights-rewritten", "own_reduction.py", "--fault rewritten", 2, ""),
    wrong("one-micro-batch-twice", "own_reduction.py", "--fault one-micro-twice --accum 2", 2, ""),
    right("dummy-left-out", "own_reduction.py", "--dummy left-out", 2, tolerance=None),
    wrong("dummy-counted", "own_reduction.py", "--dummy counted", 2, "divisor-counts-idle-parts", tolerance=None),
    wrong("padding-counted", "own_reduction.py", "--fault padding-counted", 2, "divisor-counts-idle-parts"),
    right("ddp-hook-of-own", "ddp_touched.py", "--hook mean", 2),
    wrong("ddp-hook-sums", "ddp_touched.py", "--hook sum", 2, "replicas-summed", reference=""),
    wrong("ddp-factor-by-rank", "ddp_touched.py", "--fault factor-by-rank", 2, "", tolerance=0.0005),
    wrong("ddp-inverted-weights", "ddp_touched.py", "--fault inverted", 2, ""),
    wrong("ddp-backward-again", "ddp_touched.py", "--fault backward-again", 2, ""),
    wrong("ddp-loss-of-one-rank-doubled", "ddp_touched.py", "--fault own-factor", 2, ""),
    right("contrastive", "contrastive.py", "", 2, unit="example"),
    right("contrastive-times-world", "contrastive.py", "--gather none --times-world", 2, unit="example", reference=""),
    wrong("contrastive-detached", "contrastive.py", "--gather none", 2, "gathered-part-detached", unit="example",
          reference=""),
    wrong("contrastive-slice", "contrastive.py", "--gather slice", 3, "gathered-part-detached", unit="example",
          reference=""),
    right("pipeline-by-hand", "hand_parallel.py", "pipeline", 2, unit="example", tolerance=None),
    Case("experts-by-hand", "hand_parallel.py", "experts", 2, UNTOLD, unit="example", tolerance=None),
    wrong("experts-undivided", "hand_parallel.py", "experts --undivided", 2,
          "expert-divisor-misses-ep partials-not-reduced", unit="example", tolerance=None),
    Case("weights-averaged", "hand_parallel.py", "average", 2, UNTOLD, unit="example", tolerance=None),
]

SHARDED = [
    right("fsdp", "fsdp_lm.py", "", 2),
    right("fsdp-4-ranks", "fsdp_lm.py", "", 4),
    right("fsdp-3-ranks", "fsdp_lm.py", "--accum 2", 3),
    right("fsdp-accum", "fsdp_lm.py", "--accum 3", 2),
    right("fsdp-accum-sync-every", "fsdp_lm.py", "--accum 2 --sync every --keep", 2),
    right("fsdp-root-only", "fsdp_lm.py", "--root-only --accum 2", 2),
    right("fsdp-clip", "fsdp_lm.py", "--clip norm --accum 2", 2),
    right("fsdp-clip-hand", "fsdp_lm.py", "--clip hand", 4),
    right("fsdp-clip-value", "fsdp_lm.py", "--clip value", 2),
    right("fsdp-bfloat16", "fsdp_lm.py", "--precision bf16", 2, tolerance=0.06),
    right("fsdp-bfloat16-accum", "fsdp_lm.py", "--precision bf16 --accum 2 --clip norm", 2, tolerance=0.06),
    right("fsdp-bfloat16-reduce", "fsdp_lm.py", "--precision bf16-reduce --accum 2", 2, tolerance=0.06),
    right("fsdp-hsdp", "fsdp_lm.py", "--replicas 2", 4),
    right("fsdp-hsdp-accum", "fsdp_lm.py", "--replicas 2 --accum 2 --clip norm", 4),
    right("fsdp-offload", "fsdp_lm.py", "--offload --accum 2", 2),
    right("fsdp-tied-checkpointing", "fsdp_lm.py", "--tied --checkpointing --opt adamw --accum 2", 2, tolerance=0.01),
    right("fsdp-columns", "fsdp_lm.py", "--columns", 2),
    right("fsdp-optimizer-late", "fsdp_lm.py", "--late", 2),
    right("fsdp-one-process", "fsdp_lm.py", "--accum 2", 1),
    wrong("fsdp-counts", "fsdp_lm.py", "--fault counts", 2, "replica-means-ignore-counts"),
    wrong("fsdp-counts-accum", "fsdp_lm.py", "--fault counts --accum 2", 2,
          "mean-of-microbatch-means replica-means-ignore-counts"),
    wrong("fsdp-counts-bfloat16", "fsdp_lm.py", "--fault counts --precision bf16", 2, "replica-means-ignore-counts",
          tolerance=0.06),
    wrong("fsdp-counts-hsdp", "fsdp_lm.py", "--fault counts --replicas 2", 4, "replica-means-ignore-counts"),
    wrong("fsdp-summed", "fsdp_lm.py", "--fault summed", 3, "replicas-summed"),
    wrong("fsdp-averaged-again", "fsdp_lm.py", "--fault averaged-again", 2,
          "global-denominator-averaged-again averaged-over-ranks-twice"),
    wrong("fsdp-root-factor", "fsdp_lm.py", "--fault root-factor", 2, "divide-factor-on-root-only"),
    wrong("fsdp-micro-dropped", "fsdp_lm.py", "--fault micro-dropped --accum 3 --sync every", 2, "microbatch-dropped"),
    wrong("fsdp-zero-inside", "fsdp_lm.py", "--fault zero-inside --accum 2 --sync every", 2,
          "accumulator-overwritten"),
    wrong("fsdp-ignored-parameter", "fsdp_lm.py", "--fault ignored", 2, "param-without-hook"),
    wrong("fsdp-no-zero", "fsdp_lm.py", "--fault no-zero", 2, "stale-gradient-leaks"),
    wrong("fsdp-clip-shard", "fsdp_lm.py", "--clip shard", 2, "norm-misses-shards", reference="--clip hand"),
    Case("fsdp-misaligned", "fsdp_lm.py", "--fault misaligned", 2, UNTOLD, tolerance=None),
    Case("fsdp-never-synced", "fsdp_lm.py", "--sync never", 2, UNSEEN, tolerance=None),
    right("fsdp1", "fsdp1_lm.py", "", 2),
    right("fsdp1-flat", "fsdp1_lm.py", "--flat --accum 2 --no-sync", 3),
    right("fsdp1-no-sync-clip", "fsdp1_lm.py", "--accum 3 --no-sync --clip own", 2),
    right("fsdp1-accum-bfloat16", "fsdp1_lm.py", "--accum 2 --bf16", 2, tolerance=0.06),
    right("fsdp1-grad-op", "fsdp1_lm.py", "--strategy SHARD_GRAD_OP --accum 2 --no-sync", 4),
    right("fsdp1-hybrid", "fsdp1_lm.py", "--strategy HYBRID_SHARD --accum 2", 4),
    right("fsdp1-no-shard", "fsdp1_lm.py", "--strategy NO_SHARD", 2),
    wrong("fsdp1-counts", "fsdp1_lm.py", "--fault counts", 2, "replica-means-ignore-counts"),
    wrong("fsdp1-flat-counts", "fsdp1_lm.py", "--flat --fault counts", 4, "replica-means-ignore-counts"),
    wrong("fsdp1-zero-inside", "fsdp1_lm.py", "--fault zero-inside --accum 2", 2, "accumulator-overwritten"),
    wrong("fsdp1-clip-shard", "fsdp1_lm.py", "--clip shard", 2, "norm-misses-shards", reference="--clip own"),
    right("tp", "tp_lm.py", "", 2),
    right("tp-accum", "tp_lm.py", "--accum 2", 2),
    right("tp-sequence", "tp_lm.py", "--sequence --clip 0.3", 2),
    right("tp-loss-parallel", "tp_lm.py", "--sequence --loss-parallel --accum 2", 2, reference="--sequence"),
    right("tp-norms-summed", "tp_lm.py", "--sequence --norms summed", 2, reference="--sequence"),
    right("tp-fsdp", "tp_lm.py", "--accum 2", 4),
    right("tp-fsdp-sequence", "tp_lm.py", "--sequence --clip 0.3", 4),
    wrong("tp-norms-forgotten", "tp_lm.py", "--sequence --norms forgotten", 2,
          "partials-not-reduced", reference="--sequence"),
    wrong("tp-norms-averaged", "tp_lm.py", "--sequence --norms averaged", 2, "", reference="--sequence"),
    wrong("tp-counts", "tp_lm.py", "--fault counts --accum 2", 2, "mean-of-microbatch-means"),
    wrong("tp-fsdp-counts", "tp_lm.py", "--fault counts --sequence", 4, "replica-means-ignore-counts"),
    Case("tp-own-data", "tp_lm.py", "--fault own-data", 2, UNSEEN, tolerance=None),
]

ATTACHED = [
    right("attached", "attached_lm.py", "", 2),
    right("attached-accum", "attached_lm.py", "--accum 3", 2),
    right("attached-accum-reduced-each", "attached_lm.py", "--accum 2 --reduce-each", 2),
    right("attached-fsdp", "attached_lm.py", "--wrap fsdp --accum 2", 2),
    right("attached-exact", "attached_lm.py", "--exact --accum 2", 3),
    right("attached-clip", "attached_lm.py", "--wrap fsdp --clip 0.2", 4),
    wrong("attached-no-counts", "attached_lm.py", "--fault no-counts", 2, "replica-means-ignore-counts", reference=""),
]
# fmt: on

CASES = [*MANUAL, *DDP, *ACCUMULATION, *OTHERS, *UNUSUAL, *SHARDED, *ATTACHED]
NAMES = [case.name for case in CASES]
assert len(set(NAMES)) == len(NAMES), "two cases have the same name"
