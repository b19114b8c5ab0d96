"""The signs that evidence can show beside the rule: the words in which an audit speaks to the catalogue."""

from __future__ import annotations

from enum import StrEnum


class Sign(StrEnum):
    """One thing seen, or known to be so, in a job; absent means not seen.

    Beside each stands what must have been seen.
    """

    # Which contributions are in the update.
    OWN_RANK_ONLY = "own-rank-only"  # each rank's update holds its own contributions only
    FIRST_RANK_ONLY = "first-rank-only"  # all ranks step on the first rank's gradient
    RANK_MISSING = "rank-missing"  # no update holds the contributions of some rank
    FIRST_MICRO_BATCH_ONLY = "first-micro-batch-only"  # the update holds the window's first micro-batch only
    LAST_MICRO_BATCH_ONLY = "last-micro-batch-only"  # the update holds the window's last micro-batch only
    MICRO_BATCH_MISSING = "micro-batch-missing"  # the update misses some micro-batch, and holds several others
    UNSYNCHRONISED_TAIL = "unsynchronised-tail"  # the micro-batches after the synchronised one stay local
    SOME_PARAMETERS = "some-parameters"  # it is so for a part of the parameters, the others follow another rule
    UNUSED_IN_LAST_MICRO_BATCH = "unused-in-last-micro-batch"  # these are the ones that the last one did not use
    SPARSE_APART = "sparse-apart"  # these are the ones whose gradients are sparse, or all others
    MODULES_APART = "modules-apart"  # these are all those of some modules, and the whole model is sharded by module
    DIVIDED_BY_ELEMENTS = "divided-by-elements"  # the update of each tensor is divided by its number of elements
    EMPTY_CONTRIBUTION = "empty-contribution"  # a contribution without a unit has a share, or is not finite
    PARTIAL_ONLY = "partial-only"  # ranks of one model step on their own partial gradient of a parameter they share
    GATHERED_WITHOUT_GRADIENT = (
        "gathered-without-gradient"  # all compute one loss, each has the part of its own rows, and these are averaged
    )
    SAME_CONTRIBUTIONS = "same-contributions"  # the ranks' contributions are equal

    # What else is in the update.
    PREVIOUS_UPDATE_ADDED = "previous-update-added"  # the gradient of the step before is added
    PREVIOUS_UPDATE_ONLY = "previous-update-only"  # the gradient of the step before is the update
    CLIPPED_BEFORE_REDUCTION = "clipped-before-reduction"  # each contribution was clipped by a norm of its own
    COPIES_IN_NORM = "copies-in-norm"  # the norm that clips is the gradient's times the root of a number of ranks
    SHARDS_SCALED_APART = "shards-scaled-apart"  # each rank's shard of the update has a factor of its own
    NONFINITE = "nonfinite"  # the update holds nan or inf
    WEIGHED_BY_COUNTS = "weighed-by-counts"  # the window has units, and other steps' coefficients go by their counts

    # What the replicas hold.
    REPLICAS_DIFFER = "replicas-differ"  # parameters differ between the ranks
    REPLICAS_DIFFER_AT_START = "replicas-differ-at-start"  # they did so before the first step
    REPLICAS_DIFFER_LATER = "replicas-differ-later"  # they were equal before the first step
    STEPS_DIFFER = "steps-differ"  # the ranks' learning rates differ, or one leaves a step out that the others take

    # How the job synchronises.
    DDP_PRESENT = "ddp-present"  # the model was wrapped in DistributedDataParallel
    NO_DDP = "no-ddp"  # no model was
    FORWARD_BYPASSED_WRAPPER = "forward-bypassed-wrapper"  # the wrapped module was called, the wrapper was not
    FORWARD_UNSYNCHRONISED = "forward-unsynchronised"  # forward under no_sync, backward with synchronisation on
    SYNCHRONISATION_OFF = "synchronisation-off"  # no_sync around forward and backward of every micro-batch
    ACTIVATIONS_CROSS = "activations-cross"  # activations, or their gradients, go through collectives
    RESULT_UNUSED = "result-unused"  # what is missing was reduced after backward, in a tensor that no update holds
    REDUCTION_UNAWAITED = "reduction-unawaited"  # its reduction was started, and not waited for before the step
    DIVIDED_BY_OWN_GROUP = "divided-by-own-group"  # a sum over a part of the ranks is divided by the size of that part
    REDUCTION_FAILED = "reduction-failed"  # its reduction raised, and the step went on

    # The shape of the job, and of the window concerned.
    SINGLE_RANK = "single-rank"  # there is one rank
    SINGLE_MICRO_BATCH = "single-micro-batch"  # the window has one micro-batch
    SHORT_WINDOW = "short-window"  # the window has fewer micro-batches than the others
    LONG_WINDOW = "long-window"  # it has more than the others, but not twice as many, and is divided as they are
    UNEQUAL_COUNTS_ACROSS_RANKS = "unequal-counts-across-ranks"
    UNEQUAL_COUNTS_ACROSS_MICRO_BATCHES = "unequal-counts-across-micro-batches"
    IDLE_UNITS_COUNTED = "idle-units-counted"  # the total weight equals valid units over all units with padding

    # The coefficients c_k of the reduction.
    COEFFICIENTS_SUM = "coefficients-sum"  # 1
    COEFFICIENTS_MEAN = "coefficients-mean"  # 1/R
    COEFFICIENTS_MEAN_TWICE = "coefficients-mean-twice"  # 1/R^2

    # What each contribution weighs in all.
    WEIGHED_BY_SEQUENCES = "weighed-by-sequences"  # in proportion to its sequences, where tokens should weigh the same
    BORROWED_COUNT = "borrowed-count"  # the divisor is the count of another window, or of one micro-batch
    DEPARTED_RANK_COUNTED = "departed-rank-counted"  # the divisor counts ranks that take no part any more
    TERM_GROWS_WITH_WINDOW = (
        "term-grows-with-window"  # a term's total weight goes by the window, the main one's does not
    )

    # The scale that reached the loss.
    LOSS_TIMES_WORLD = "loss-times-world"  # it holds the factor R
    LOSS_OVER_WORLD = "loss-over-world"  # it holds the factor 1/R
    LOSS_OVER_WINDOW_TWICE = "loss-over-window-twice"  # it holds the factor 1/M^2
