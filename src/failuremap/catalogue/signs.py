"""The signs that evidence can show beside the rule: the words in which an audit speaks to the catalogue."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

_IN_UPDATE = "Which contributions are in the update"
_ADDED = "What else is in the update"
_REPLICAS = "What the replicas hold"
_SYNCHRONISES = "How the job synchronises"
_SHAPE = "The shape of the job, and of the window concerned"
_COEFFICIENTS = "The coefficients c_k of the reduction"
_WEIGHTS = "What each contribution weighs in all"
_LOSS_SCALE = "The scale that reached the loss"


class Sign(StrEnum):
    """One thing seen, or known to be so, in a job; absent means not seen.

    Example:
        >>> Sign.SINGLE_RANK, Sign.SINGLE_RANK.words
        (<Sign.SINGLE_RANK: 'single-rank'>, 'there is one rank')
    """

    topic: str
    """What it is a sign of, for those who ask for one after the other."""
    words: str
    """What must have been seen."""

    def __new__(cls, value: str, topic: str, words: str) -> Self:
        """Makes a sign that is its own name."""
        sign = str.__new__(cls, value)
        sign._value_, sign.topic, sign.words = value, topic, words
        return sign

    OWN_RANK_ONLY = ("own-rank-only", _IN_UPDATE, "each rank's update holds its own contributions only")
    FIRST_RANK_ONLY = ("first-rank-only", _IN_UPDATE, "all ranks step on the first rank's gradient")
    RANK_MISSING = ("rank-missing", _IN_UPDATE, "no update holds the contributions of some rank")
    FIRST_MICRO_BATCH_ONLY = (
        "first-micro-batch-only",
        _IN_UPDATE,
        "the update holds the window's first micro-batch only",
    )
    LAST_MICRO_BATCH_ONLY = ("last-micro-batch-only", _IN_UPDATE, "the update holds the window's last micro-batch only")
    MICRO_BATCH_MISSING = (
        "micro-batch-missing",
        _IN_UPDATE,
        "the update misses some micro-batch, and holds several others",
    )
    UNSYNCHRONISED_TAIL = ("unsynchronised-tail", _IN_UPDATE, "the micro-batches after the synchronised one stay local")
    SOME_PARAMETERS = (
        "some-parameters",
        _IN_UPDATE,
        "a part of the parameters is concerned, the others follow another rule",
    )
    UNUSED_IN_LAST_MICRO_BATCH = (
        "unused-in-last-micro-batch",
        _IN_UPDATE,
        "the parameters concerned are those that the last micro-batch did not use",
    )
    SPARSE_APART = (
        "sparse-apart",
        _IN_UPDATE,
        "the parameters concerned are those with sparse gradients, or all others",
    )
    MODULES_APART = (
        "modules-apart",
        _IN_UPDATE,
        "the parameters concerned are all those of some modules, in a model sharded by module",
    )
    DIVIDED_BY_ELEMENTS = (
        "divided-by-elements",
        _IN_UPDATE,
        "the update of each tensor is divided by its number of elements",
    )
    EMPTY_CONTRIBUTION = (
        "empty-contribution",
        _IN_UPDATE,
        "a contribution without a unit has a share, or is not finite",
    )
    PARTIAL_ONLY = (
        "partial-only",
        _IN_UPDATE,
        "ranks of one model step on their own partial gradient of a parameter they share",
    )
    COPIES_APART = (
        "copies-apart",
        _IN_UPDATE,
        "stages of a pipeline hold copies of one weight, and each steps on its own gradient",
    )
    GATHERED_WITHOUT_GRADIENT = (
        "gathered-without-gradient",
        _IN_UPDATE,
        "all ranks compute one loss, each has the part of its own rows, and these are averaged",
    )
    UNLIKE_ONE_PROCESS = (
        "unlike-one-process",
        _IN_UPDATE,
        "backward gave other gradients than one process computes, and these were added up as all others are",
    )
    OTHER_PARAMETER_ADDED = (
        "other-parameter-added",
        _IN_UPDATE,
        "the update of a parameter holds the gradient of another one in place of its own, of some contributions",
    )
    SAME_CONTRIBUTIONS = ("same-contributions", _IN_UPDATE, "the ranks' contributions are equal")

    PREVIOUS_UPDATE_ADDED = ("previous-update-added", _ADDED, "the gradient of the step before is added")
    PREVIOUS_UPDATE_ONLY = ("previous-update-only", _ADDED, "the gradient of the step before is the update")
    CLIPPED_BEFORE_REDUCTION = (
        "clipped-before-reduction",
        _ADDED,
        "each contribution was clipped by a norm of its own",
    )
    COPIES_IN_NORM = (
        "copies-in-norm",
        _ADDED,
        "the norm that clips is the gradient's times the root of a number of ranks",
    )
    SHARDS_SCALED_APART = ("shards-scaled-apart", _ADDED, "each rank's shard of the update has a factor of its own")
    NONFINITE = ("nonfinite", _ADDED, "the update holds nan or inf")
    WEIGHED_BY_COUNTS = (
        "weighed-by-counts",
        _ADDED,
        "the window has units, and other steps' coefficients go by their counts",
    )

    REPLICAS_DIFFER = ("replicas-differ", _REPLICAS, "parameters differ between the ranks")
    REPLICAS_DIFFER_AT_START = (
        "replicas-differ-at-start",
        _REPLICAS,
        "parameters differ between the ranks before the first step",
    )
    REPLICAS_DIFFER_LATER = (
        "replicas-differ-later",
        _REPLICAS,
        "parameters differ between the ranks, and were equal before the first step",
    )
    STEPS_DIFFER = (
        "steps-differ",
        _REPLICAS,
        "the ranks' learning rates differ, or one leaves a step out that the others take",
    )

    DDP_PRESENT = ("ddp-present", _SYNCHRONISES, "the model was wrapped in DistributedDataParallel")
    NO_DDP = ("no-ddp", _SYNCHRONISES, "no model was wrapped in DistributedDataParallel")
    FORWARD_BYPASSED_WRAPPER = (
        "forward-bypassed-wrapper",
        _SYNCHRONISES,
        "the wrapped module was called, the wrapper was not",
    )
    FORWARD_UNSYNCHRONISED = (
        "forward-unsynchronised",
        _SYNCHRONISES,
        "forward under no_sync, backward with synchronisation on",
    )
    SYNCHRONISATION_OFF = (
        "synchronisation-off",
        _SYNCHRONISES,
        "no_sync around forward and backward of every micro-batch",
    )
    ACTIVATIONS_CROSS = ("activations-cross", _SYNCHRONISES, "activations, or their gradients, go through collectives")
    CROSSES_UNSEEN = (
        "crosses-unseen",
        _SYNCHRONISES,
        "a tensor that carries a gradient crosses the ranks in a collective that autograd does not see",
    )
    RESULT_UNUSED = (
        "result-unused",
        _SYNCHRONISES,
        "what is missing was reduced in or after backward, in a tensor that no update holds",
    )
    REDUCTION_UNAWAITED = (
        "reduction-unawaited",
        _SYNCHRONISES,
        "the reduction of what is missing was started, and not waited for before the step",
    )
    DIVIDED_BY_OWN_GROUP = (
        "divided-by-own-group",
        _SYNCHRONISES,
        "a sum over a part of the ranks is divided by the size of that part",
    )
    REDUCTION_FAILED = (
        "reduction-failed",
        _SYNCHRONISES,
        "the reduction of what is missing raised, and the step went on",
    )

    SINGLE_RANK = ("single-rank", _SHAPE, "there is one rank")
    SINGLE_MICRO_BATCH = ("single-micro-batch", _SHAPE, "the window has one micro-batch")
    SHORT_WINDOW = ("short-window", _SHAPE, "the window has fewer micro-batches than the others")
    LONG_WINDOW = (
        "long-window",
        _SHAPE,
        "the window has more micro-batches than the others, but not twice as many, and is divided as they are",
    )
    UNEQUAL_COUNTS_ACROSS_RANKS = ("unequal-counts-across-ranks", _SHAPE, "the counts differ between the ranks")
    UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES = (
        "unequal-counts-across-micro-batches",
        _SHAPE,
        "the counts differ between the micro-batches",
    )
    IDLE_UNITS_COUNTED = (
        "idle-units-counted",
        _SHAPE,
        "the total weight equals valid units over all units with padding",
    )

    COEFFICIENTS_SUM = ("coefficients-sum", _COEFFICIENTS, "the reduction adds up: each coefficient is 1")
    COEFFICIENTS_MEAN = (
        "coefficients-mean",
        _COEFFICIENTS,
        "the reduction averages over the R ranks: each coefficient is 1/R",
    )
    COEFFICIENTS_MEAN_TWICE = (
        "coefficients-mean-twice",
        _COEFFICIENTS,
        "the reduction averages over the R ranks twice: each coefficient is 1/R^2",
    )

    WEIGHED_BY_SEQUENCES = (
        "weighed-by-sequences",
        _WEIGHTS,
        "a contribution weighs in proportion to its sequences, where tokens should weigh the same",
    )
    BORROWED_COUNT = ("borrowed-count", _WEIGHTS, "the divisor is the count of another window, or of one micro-batch")
    DEPARTED_RANK_COUNTED = ("departed-rank-counted", _WEIGHTS, "the divisor counts ranks that take no part any more")
    TERM_GROWS_WITH_WINDOW = (
        "term-grows-with-window",
        _WEIGHTS,
        "a term's total weight goes by the window, the main one's does not",
    )

    LOSS_TIMES_WORLD = ("loss-times-world", _LOSS_SCALE, "the loss holds the factor R, the number of ranks")
    LOSS_OVER_WORLD = ("loss-over-world", _LOSS_SCALE, "the loss holds the factor 1/R, R being the number of ranks")
    LOSS_OVER_WINDOW_TWICE = (
        "loss-over-window-twice",
        _LOSS_SCALE,
        "the loss holds the factor 1/M^2, M being the micro-batches of the window",
    )
