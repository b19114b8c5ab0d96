"""An already reduced gradient is reduced again: R^(M-k) on micro-batch k."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=48,
    slug="reduced-again",
    title="An already reduced gradient is reduced again",
    group="synchronisation",
    abstract="The older a micro-batch of the window, the more often it is summed over the ranks.",
    root_cause="The reduction runs after each micro-batch, on the accumulated gradient.",
    failure=(
        "Two ranks, a window of three, every gradient 1: the update should be 1 and is 7/3. The first micro-batch "
        "weighs four times the last."
    ),
    failed_approach=(
        "Dividing the result by R once for each reduction takes the factor off the first micro-batch alone: the last "
        "one was summed once and is divided three times, so its share shrinks as the window grows."
    ),
    relevance=(
        "The factor grows as R to the power of the window, which clipping or Adam's scaling hides; what stays is a "
        "window that counts its first micro-batch almost alone. Met in ZeRO with accumulation, in gradient hooks that "
        "fire at every backward, and where synchronize() is called by hand and again inside step()."
    ),
    limitations=(
        "The reduction is a sum; averaging over the ranks each time leaves what had been averaged as it was, so it "
        "costs traffic and keeps the result."
    ),
    contract=(
        "Given the gradients of a window, micro-batch by micro-batch and rank by rank, return their mean: each "
        "gradient is added over the ranks once; an empty window gives []."
    ),
    domain=(
        "window: a list of micro-batches, each a list with one gradient for each rank, a gradient a list of finite "
        "numbers; all micro-batches have the same ranks, all gradients one length."
    ),
    clauses=(
        Clause(
            "each-once",
            "algebraic",
            "Every micro-batch has the same weight, whatever its place in the window.",
            ("two by two", "last micro-batch alone", "first micro-batch alone"),
        ),
        Clause(
            "long-window", "algebraic", "The length of the window changes no weight.", ("window of four", "three ranks")
        ),
        Clause("one-micro-batch", "boundary", "A window of one is the mean over the ranks.", ("one micro-batch",)),
        Clause("one-rank", "boundary", "A single rank's window is its own mean.", ("one rank",)),
        Clause("empty", "boundary", "An empty window gives no update: [].", ("empty window",)),
    ),
    promised="mean",
    followed=(
        "reduced_again_over_ranks_and_window",
        "reduced_again",
        "reduced_again_over_ranks",
        "reduced_again_over_window",
        "weighted_reduced_again",
    ),
    never=frozenset({Sign.SINGLE_RANK, Sign.SINGLE_MICRO_BATCH}),
    separated_by="a window of another number of micro-batches",
    symptoms=(
        "The accumulated gradient is all-reduced after every micro-batch, so early ones are reduced several times.",
        "Gradients are reduced twice when clipping.",
    ),
    audit_sees=(
        "Coefficients that fall by the factor R from each micro-batch of the window to the next, alike on all ranks."
    ),
    repair=(
        "Reduce once in a window, between its last backward() and optimizer.step(): for p in model.parameters(): "
        "dist.all_reduce(p.grad); p.grad /= dist.get_world_size(), after (loss / len(window)).backward() in each "
        "micro-batch. Where summed losses are divided by the global count of the window, leave both divisions out."
    ),
    references=(
        "https://github.com/hpcaitech/ColossalAI/issues/247",
        "https://github.com/sony/nnabla/pull/1120",
        "https://github.com/horovod/horovod/issues/1099",
        "https://github.com/NVIDIA/Megatron-LM/issues/775",
        "https://github.com/deepspeedai/DeepSpeed/pull/4957",
    ),
    related=("averaged-over-ranks-twice", "replicas-summed", "sync-on-wrong-microbatch", "mean-of-summed-gradient"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(window):
    """Lays the window out as one contribution for each rank and micro-batch."""
    cells = {(rank, m): 1 for m, parts in enumerate(window) for rank in range(len(parts))}
    return [gradient for parts in window for gradient in parts], Layout.grid(cells)


def sample(source):
    """Draws a window of 1 to 4 micro-batches on 1 to 4 ranks."""
    width, ranks = source.randint(1, 3), source.randint(1, 4)
    return [
        [[source.randint(-50, 50) for _ in range(width)] for _ in range(ranks)] for _ in range(source.randint(1, 4))
    ]


def broken(window):
    if not window:
        return []
    ranks = len(window[0])
    accumulated = [[0] * len(gradient) for gradient in window[0]]
    for parts in window:
        accumulated = [[a + g for a, g in zip(*pair, strict=True)] for pair in zip(accumulated, parts, strict=True)]
        total = [sum(column) for column in zip(*accumulated, strict=True)]
        accumulated = [total for _ in range(ranks)]
    return [value / (ranks * len(window)) for value in accumulated[0]]


def attempt(window):
    if not window:
        return []
    ranks = len(window[0])
    accumulated = [[0] * len(gradient) for gradient in window[0]]
    for parts in window:
        accumulated = [[a + g for a, g in zip(*pair, strict=True)] for pair in zip(accumulated, parts, strict=True)]
        total = [sum(column) for column in zip(*accumulated, strict=True)]
        accumulated = [total for _ in range(ranks)]
    return [value / (ranks ** len(window) * len(window)) for value in accumulated[0]]


def fixed(window):
    if not window:
        return []
    ranks = len(window[0])
    accumulated = [[0] * len(gradient) for gradient in window[0]]
    for parts in window:
        accumulated = [[a + g for a, g in zip(*pair, strict=True)] for pair in zip(accumulated, parts, strict=True)]
    return [sum(column) / (ranks * len(window)) for column in zip(*accumulated, strict=True)]


def checks(N, solve, check):
    check("two by two", solve([[[N], [3 * N]], [[5 * N], [7 * N]]]), [4 * N])
    check("last micro-batch alone", solve([[[0], [0]], [[4 * N], [8 * N]]]), [3 * N])
    check("first micro-batch alone", solve([[[4 * N], [8 * N]], [[0], [0]]]), [3 * N])
    check("window of four", solve([[[N], [N]]] * 4), [N])
    check("three ranks", solve([[[N, 0], [N, 3], [N, 6]], [[N, 9], [N, 0], [N, 0]]]), [N, 3])
    check("one micro-batch", solve([[[N, 1], [3 * N, 3]]]), [2 * N, 2])
    check("one rank", solve([[[N]], [[N + 4]]]), [N + 2])
    check("empty window", solve([]), [])
