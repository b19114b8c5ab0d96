"""An already reduced gradient is reduced again: R^(M-k) on micro-batch k."""

from failuremap.catalogue.mechanism import Mechanism
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="reduced-again",
    title="An already reduced gradient is reduced again",
    abstract="The older a micro-batch of the window, the more often it is summed over the ranks.",
    contract="Given a reduced accumulator and a new local part, reduce the new part only.",
    root_cause="The reduction runs after each micro-batch, on the accumulated gradient.",
    followed=(
        "reduced_again",
        "reduced_again_over_ranks",
        "reduced_again_over_window",
        "reduced_again_over_ranks_and_window",
        "weighted_reduced_again",
    ),
    never=frozenset({Sign.SINGLE_RANK, Sign.SINGLE_MICRO_BATCH}),
    separated_by="a window of another number of micro-batches",
    repair=(
        "Reduce once in a window, between its last backward() and optimizer.step(): for p in model.parameters(): "
        "dist.all_reduce(p.grad); p.grad /= dist.get_world_size(), after (loss / len(window)).backward() in each "
        "micro-batch. Where summed losses are divided by the global count of the window, leave both divisions out."
    ),
    references=(
        "https://github.com/sony/nnabla/pull/1120",
        "https://github.com/horovod/horovod/issues/1099",
        "https://github.com/hpcaitech/ColossalAI/issues/247",
    ),
)
