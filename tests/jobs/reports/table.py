"""The public reports in whose manner the scripts of this folder are written, and what the audit should say of each.

A script runs as reported; with --fixed it runs as repaired.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobs.expectations import RIGHT, WRONG, Case

CANNOT_TELL, NOT_MEASURED = ("cannot tell",), ("not measured",)


@dataclass(frozen=True)
class Report:
    """A public report, its own finding in our words, and the verdicts that are true of its script."""

    script: str
    url: str
    family: str
    finding: str
    slugs: str = ""
    """Mechanisms that may name the fault; none: a rule that has no name."""
    outcomes: tuple[str, ...] = WRONG
    fixed: tuple[str, ...] = RIGHT
    unseen: str = ""
    """Why the fault cannot be seen, where the verdict doesn't name it."""
    varies: bool = False
    """Whether the sentence depends on which rank is faster, or chooses among places that are equally far off."""

    @property
    def cases(self) -> tuple[Case, Case]:
        """The script as reported, and as repaired."""
        file = f"reports/{self.script}.py"
        broken = Case(self.script, file, "", 2, self.outcomes, tuple(self.slugs.split()), planted=False, tolerance=None)
        return broken, Case(f"{self.script}-fixed", file, "--fixed", 2, self.fixed, tolerance=None)


def _at(place: str) -> str:
    return f"https://github.com/{place}"


# One report a paragraph.
# fmt: off
REPORTS = [
    Report("uneven_split", _at("huggingface/transformers/issues/608"), "replica-means-ignore-counts",
        "13 examples on two GPUs: the means of 7 and of 6 examples are averaged as equals.",
        "replica-means-ignore-counts"),
    Report("items_in_batch", _at("huggingface/transformers/pull/34373"), "replica-means-ignore-counts",
        "Each rank divides by its own number of tokens, then DDP averages.", "replica-means-ignore-counts"),
    Report("chat_tuning", _at("karpathy/nanochat/pull/400"), "mean-of-microbatch-means",
        "The weights after a step depend on the size of a micro-batch: each gives its own mean.",
        "mean-of-microbatch-means replica-means-ignore-counts"),
    Report("rollouts", _at("PrimeIntellect-ai/prime-rl/pull/2562"), "replica-means-ignore-counts",
        "Ranks with short rollouts weigh more per token: each divides by its own tokens, then FSDP averages.",
        "replica-means-ignore-counts"),
    Report("shares", _at("verl-project/verl/pull/906"), "weight-kind-mismatch",
        "Token means of micro-batches are weighted by their share of the sequences.", "weight-kind-mismatch"),
    Report("sequence_split", _at("deepspeedai/DeepSpeed/pull/5555"), "group-divisor-mismatch",
        "With sequences split over 4 ranks the gradient is 4 times too small: divided by all ranks, not by the data "
        "parallel ones.", "group-divisor-mismatch global-denominator-averaged-again"),
    Report("fsdp_token_loss", _at("verl-project/verl/pull/5366"), "global-denominator-averaged-again",
        "One way to aggregate a loss is a sum over a global number, and FSDP divides it by the ranks again.",
        "global-denominator-averaged-again divided-twice"),
    Report("ddp_token_loss", _at("pytorch/torchtitan/pull/2323"), "global-denominator-averaged-again",
        "Losses became sums over the global number of tokens; FSDP's averaging was switched off, DDP's was not.",
        "global-denominator-averaged-again"),
    Report("scaled_after", _at("meta-pytorch/torchtune/pull/1917"), "global-denominator-averaged-again",
        "Gradients are divided by the global number of tokens after the backward, and DDP has divided them by the "
        "ranks.", "global-denominator-averaged-again divided-twice"),
    Report("trainer_backward", _at("huggingface/transformers/issues/35203"), "divided-twice",
        "The loss is divided by the window's tokens, and by the number of micro-batches again.",
        "divided-twice global-denominator-averaged-again"),
    Report("accumulated_classifier", _at("huggingface/transformers/issues/37766"), "window-sum-not-mean",
        "The loss grows with the number of micro-batches: neither the loss nor the trainer divides by it.",
        "window-sum-not-mean"),
    Report("token_distillation", _at("verl-project/verl/issues/7200"), "window-sum-not-mean",
        "At micro-batch size 1 a distillation loss becomes a sum of the sequences' means.", "window-sum-not-mean"),
    Report("printed_mean", _at("pytorch/torchtitan/issues/2972"), "late-division",
        "The gradient is as many times too large as there are tokens: only the printed loss is divided.",
        "late-division"),
    Report("guessed_count", _at("axolotl-ai-cloud/axolotl/pull/2977"), "denominator-window-mismatch",
        "The window's number of tokens is taken as one micro-batch's, times the micro-batches.",
        "denominator-window-mismatch"),
    Report("short_window", _at("Lightning-AI/pytorch-lightning/issues/19987"), "partial-window-full-divisor",
        "The last step of an epoch has fewer micro-batches and is divided by as many as the others.",
        "partial-window-full-divisor"),
    Report("left_over", _at("WalkingMeatAxolotl/AnimaLoraStudio/pull/305"), "tail-window-dropped",
        "The micro-batches that are left over at an epoch's end leak into the next epoch's first step.",
        outcomes=CANNOT_TELL,
        unseen="a window that goes over the end of an epoch looks like one that was meant to; what is odd is told"),
    Report("gradient_buffers", _at("ServiceNow/Fast-LLM/pull/551"), "accumulator-overwritten",
        "Most gradients are copied into their buffer instead of added; the tied embedding is right.",
        "accumulator-overwritten"),
    Report("stage_restart", _at("NVIDIA-NeMo/Automodel/pull/3530"), "accumulator-overwritten",
        "Only the last micro-batch trains: each begins with gradients set to None.", "accumulator-overwritten"),
    Report("no_zero", _at("sql-machine-learning/elasticdl/pull/2426"), "stale-gradient-leaks",
        "Gradients are never zeroed.", "stale-gradient-leaks"),
    Report("steps_between", _at("keras-team/keras/issues/19990"), "state-advances-per-microbatch",
        "The optimizer's state advances on every micro-batch, not once a step.",
        "state-advances-per-microbatch stale-gradient-leaks"),
    Report("gradients_apart", _at("horovod/horovod/issues/141"), "reducer-bypassed",
        "Nothing is communicated where gradients are computed outside the wrapped optimizer.",
        "reducer-bypassed never-synchronised"),
    Report("clip_branch", _at("huggingface/transformers/pull/20116"), "reducer-bypassed",
        "Without a limit on the norm nothing is reduced: the reduction stands in the branch that clips.",
        "reducer-bypassed never-synchronised"),
    Report("frozen_encoder", _at("bytetriper/RAE/issues/40"), "reducer-bypassed",
        "The decoder is called on the model inside DDP, so DDP reduces nothing.", "reducer-bypassed"),
    Report("new_head", _at("pytorch/pytorch/issues/12603"), "param-without-hook",
        "A parameter that is replaced after DDP was built is not reduced.", "param-without-hook"),
    Report("lora_patch", _at("kohya-ss/sd-scripts/pull/989"), "param-without-hook",
        "Adapters patch the forward of a frozen model and are part of no DDP module: they are not reduced.",
        "param-without-hook reducer-bypassed"),
    Report("sync_flag", _at("huggingface/picotron/pull/5"), "sync-on-wrong-microbatch",
        "The flag that synchronises gradients is set on the wrong micro-batch.", "sync-on-wrong-microbatch"),
    Report("reduce_often", _at("hpcaitech/ColossalAI/issues/247"), "reduced-again",
        "Gradients that were reduced are reduced again at each later micro-batch.", "reduced-again"),
    Report("bucket_finish", _at("NVIDIA/Megatron-LM/issues/775"), "reduced-again",
        "Without overlap, the end of the reduction starts it a second time.", "reduced-again replicas-summed"),
    Report("sparse_rows", _at("horovod/horovod/pull/2279"), "replicas-summed",
        "Sparse gradients are summed over the ranks, dense ones averaged.", "replicas-summed sparse-path-own-scale"),
    Report("times_world", _at("neuralmagic/sparseml/pull/135"), "compensation-without-cause",
        "The loss is multiplied by the number of ranks, to undo a division that is wanted.",
        "compensation-without-cause replicas-summed"),
    Report("contiguous_copy", _at("pytorch/pytorch/pull/120582"), "result-lost",
        "The collective works on a contiguous copy, and its result is lost.", "result-lost"),
    Report("early_step", _at("pytorch/pytorch/issues/37790"), "read-before-reduced",
        "Gradients are used before their average has arrived.", "read-before-reduced", varies=True),
    Report("flat_buffers", _at("NVIDIA/Megatron-LM/pull/6500"), "misaligned-shards",
        "Flat buffers are laid out differently on two ranks, so different rows are added.", "misaligned-shards"),
    Report("clip_first", _at("horovod/horovod/issues/1346"), "clip-in-wrong-place",
        "Each rank limits the norm of its own gradient before they are averaged.", "clip-in-wrong-place"),
    Report("shard_clip", _at("sgl-project/SpecForge/pull/663"), "norm-misses-shards",
        "Each rank limits its shard by the norm of that shard, which turns the update.", "norm-misses-shards"),
    Report("norm_by_hand", _at("NVIDIA-NeMo/RL/pull/3788"), "norm-counts-copies",
        "The squares of copies are summed over the ranks: the norm is too large, the clip too strong.",
        outcomes=RIGHT,
        unseen="all gradients have one factor; what the script computes it from is its own affair, and the sentence "
        "names the factor"),
    Report("overflow", _at("facebookresearch/fairscale/pull/181"), "rank-local-step-decision",
        "Each rank decides on its own whether an overflow makes it skip the step.", "rank-local-step-decision"),
    Report("progress", _at("karpathy/nanochat/pull/857"), "rank-local-step-decision",
        "The learning rate follows each rank's own progress.", "rank-local-step-decision"),
    Report("local_sgd", _at("pytorch/pytorch/issues/76282"), "rank-local-step-decision",
        "Weights are averaged inside step(), so a rank that skips its step skips the average.",
        outcomes=CANNOT_TELL, fixed=CANNOT_TELL,
        unseen="weights that are averaged after steps on single ranks are not judged; the note names the step"),
    Report("federated", _at("TsingZ0/PFLlib/issues/260"), "buffers-first-only",
        "Parameters are averaged over the clients; the statistics of batch normalisation stay the first one's.",
        outcomes=CANNOT_TELL, fixed=CANNOT_TELL,
        unseen="weights that are averaged after steps on single ranks are not judged"),
    Report("masked_samples", _at("NVIDIA-NeMo/RL/issues/212"), "divisor-counts-idle-parts",
        "A micro-batch whose only sample is masked counts in the divisor.", "divisor-counts-idle-parts"),
    Report("skipped_loss", _at("PrimeIntellect-ai/prime-rl/pull/1961"), "divisor-counts-idle-parts",
        "Tokens of micro-batches whose loss was not a number, and was skipped, stay in the divisor.",
        outcomes=CANNOT_TELL,
        unseen="micro-batches without a backward leave no contribution; the range of the factor is told"),
    Report("dummy_batch", _at("facebookresearch/fairseq/pull/1890"), "departed-rank-counted",
        "The dummy batch of a rank that has run out of data must not count.",
        "departed-rank-counted divisor-counts-idle-parts"),
    Report("masked_batch", _at("allenai/OLMo-core/pull/657"), "zero-total",
        "One rank without a labelled token makes all ranks NaN.",
        "zero-total replica-means-ignore-counts divisor-counts-idle-parts global-denominator-averaged-again"),
    Report("one_loader", _at("yaak-ai/rbyte/pull/106"), "same-data-on-all-ranks",
        "All ranks draw the same samples.", "same-data-on-all-ranks"),
    Report("padded_epochs", _at("pytorch/pytorch/pull/41171"), "example-multiplicity",
        "A distributed sampler repeats examples to fill the last batch.", outcomes=RIGHT,
        unseen="an example that comes twice is two examples to the loss; which is which is not seen"),
    Report("gather_layer", _at("facebookresearch/vissl/pull/230"), "gathered-part-detached",
        "What is gathered from the other ranks carries no gradient back to them.", "gathered-part-detached"),
    Report("gathered_anchors", _at("JohnGiorgi/DeCLUTR/pull/212"), "gathered-part-detached",
        "A contrastive gradient is 1/N: the local slice alone carries it, and DDP averages.",
        "gathered-part-detached"),
    Report("cached_views", _at("luyug/GradCache/issues/25"), "gathered-part-detached",
        "Retrieval gets worse with more GPUs: the loss over all ranks' views is not scaled up.",
        outcomes=NOT_MEASURED, fixed=NOT_MEASURED,
        unseen="the backward passes that reach the parameters start from cached gradients, not from a loss"),
    Report("cross_correlation", _at("lightly-ai/lightly/issues/1977"), "gathered-part-detached",
        "The reduced statistic carries the rank's own gradient alone, and DDP averages.",
        outcomes=NOT_MEASURED, fixed=NOT_MEASURED, unseen="the loss is written out by hand"),
    Report("decay_in_loss", _at("tensorflow/models/pull/6195"), "aux-term-other-denominator",
        "Weight decay as a term of the loss is summed over the replicas, so it grows with them.", outcomes=RIGHT,
        unseen="terms of the parameters alone have no units and are not judged"),
    Report("value_term", _at("OpenNMT/OpenNMT-py/issues/2209"), "aux-term-other-denominator",
        "A second term that is averaged a micro-batch at a time gets another weight than the first.",
        "aux-term-other-denominator compensation-without-cause window-sum-not-mean", varies=True),
    Report("next_two_tokens", _at("NVIDIA/Megatron-LM/issues/1532"), "aux-term-other-denominator",
        "The loss of the extra head is a sum.", "aux-term-other-denominator", outcomes=CANNOT_TELL,
        unseen="a sum may be meant; the reason says which option settles it"),
    Report("router_balance", _at("NVIDIA-NeMo/Automodel/pull/3359"), "aux-term-other-denominator",
        "The term that balances a router is added at each micro-batch, without the window's division.",
        outcomes=NOT_MEASURED, fixed=NOT_MEASURED, unseen="the term is written out by hand"),
    Report("fused_head", _at("unslothai/unsloth-zoo/pull/434"), "wrong-backward-scale",
        "A fused loss computes its gradients forward, as if none came from above; there, the number of ranks does.",
        outcomes=CANNOT_TELL, unseen="a factor inside the function would look alike; the reason says what to see to"),
    Report("rowwise_bias", _at("pytorch/torchtitan/pull/4332"), "wrong-backward-scale",
        "A bias that each rank adds its share of trains that many times too slowly.",
        outcomes=CANNOT_TELL, fixed=CANNOT_TELL,
        unseen="a plain tensor doesn't say which part of a layer it is; compare with a run on one process"),
    Report("router_dtensor", _at("pytorch/torchtitan/issues/1805"), "partials-not-reduced",
        "A router's gradient misses what the other ranks' parts of the sequence bring.",
        outcomes=NOT_MEASURED, fixed=NOT_MEASURED,
        unseen="the ranks' losses are of different targets, and DTensors don't say of which part"),
    Report("sequence_norms", _at("EleutherAI/gpt-neox/pull/1259"), "partials-averaged",
        "With sequences split over the ranks, norms are averaged where all else is summed.", "partials-averaged"),
    Report("experts", _at("NVIDIA/Megatron-LM/pull/5956"), "expert-divisor-misses-ep",
        "Gradients of experts are as many times too large as there are ranks of experts; dense ones are right.",
        "expert-divisor-misses-ep partials-not-reduced", fixed=CANNOT_TELL),
    Report("experts_functional", _at("deepspeedai/DeepSpeed/pull/5259"), "expert-divisor-misses-ep",
        "With two ranks of experts the same model has twice the gradient in its experts.",
        "expert-divisor-misses-ep partials-not-reduced", fixed=CANNOT_TELL),
    Report("pipeline_schedule", _at("pytorch/pytorch/pull/144352"), "window-sum-not-mean",
        "A pipeline's gradients are not divided by its number of micro-batches.", "window-sum-not-mean"),
    Report("tied_stages", _at("uw-syfi/piper/issues/13"), "tied-copies-not-summed",
        "A tied embedding on two devices trains apart: the gradients of its copies are not summed.",
        outcomes=CANNOT_TELL,
        unseen="nothing in the job says that the two begin alike because they are one weight"),
    Report("half_sum", _at("pytorch/pytorch/pull/61814"), "reduced-precision-sum",
        "Sums in half precision overflow before they are divided.", outcomes=CANNOT_TELL,
        unseen="an infinity is no combination of the gradients; the parameters are named"),
    Report("shown_loss", _at("ORNL/HydraGNN/pull/116"), "metric-reduction",
        "The loss that is printed is a rank's sum, divided by all examples.", outcomes=RIGHT,
        unseen="the update is right, and numbers that are printed are not audited"),
]
# fmt: on
