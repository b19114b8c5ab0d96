"""An auxiliary term uses another denominator than the main loss: M times its weight."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=38,
    slug="aux-term-other-denominator",
    title="An auxiliary term uses another denominator than the main loss",
    group="terms",
    abstract="A balancing, multi-token or value term joins the loss without the division that the main term had.",
    root_cause=(
        "One sum holds terms that were normalised by different things: the main one by the units of the window, the "
        "other by its own micro-batch, by the replicas, or not at all."
    ),
    failure=(
        "With gradients 2 and 6 of the main term over 1 and 3 tokens, and 4 and 8 of the auxiliary one, two "
        "micro-batches give 2 + 12, where 2 + 6 is right: the auxiliary term pulls twice as hard as its coefficient "
        "says."
    ),
    failed_approach=(
        "Scaling the whole loss by the factor that one term lacks corrects that term and spoils the other, which was "
        "right. ms-swift's first repair did so, and was narrowed to the term concerned."
    ),
    relevance=(
        "The coefficient of the term means something else at another accumulation, parallel size or batch, and nobody "
        "tunes it again. Seen with the router's balancing loss of mixtures of experts (Megatron-Core, NeMo "
        "Automodel), multi-token prediction (Megatron-Core), an extra likelihood in RL (NeMo-RL: 32 times), and a "
        "regulariser that each replica added (TensorFlow's ResNet)."
    ),
    limitations="The auxiliary term is averaged over micro-batches here; one that is a mean over tokens needs counts.",
    contract=(
        "Given one [main_sum, token_count, auxiliary_mean] row for each micro-batch of a window, return the mean of "
        "the main term over all tokens plus the mean of the auxiliary term over the micro-batches; without any token "
        "the latter alone, [] without a micro-batch."
    ),
    domain=(
        "window: a list of (main, count, auxiliary) triples; main and auxiliary lists of integers, all of one length; "
        "main zeros where the count is 0; count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "each-by-its-own",
            "algebraic",
            "The update is the sum of what each term alone gives by its own mean.",
            ("two micro-batches", "two coordinates"),
        ),
        Clause(
            "auxiliary-mean",
            "algebraic",
            "More micro-batches with the same auxiliary term leave its share as it is.",
            ("auxiliary term alone", "four micro-batches"),
        ),
        Clause("main-mean", "algebraic", "The main term is a mean over tokens, as it is alone.", ("main term alone",)),
        Clause("window-of-one", "boundary", "One micro-batch gives both of its means.", ("one micro-batch",)),
        Clause(
            "zero-count",
            "boundary",
            "A micro-batch without tokens still has its auxiliary term.",
            ("a micro-batch without tokens", "no tokens at all"),
        ),
        Clause("no-micro-batch", "boundary", "Without a micro-batch there is no update: [].", ("empty window",)),
    ),
    promised="",
    law=(
        "The update is the sum of what it is with either term alone; the main term's part times the tokens, and the "
        "auxiliary term's times the micro-batches, are their sums."
    ),
    by_signs_alone=True,
    signs=signs({Sign.TERM_GROWS_WITH_WINDOW}),
    separated_by="windows of different lengths: a term that lacks the division by the window grows with it",
    symptoms=(
        "The router's balancing loss is over-weighted by the number of accumulation steps.",
        "A multi-token-prediction or auxiliary loss is too strong against the main loss.",
    ),
    audit_sees=(
        "A main term that is right, and beside it one whose total weight goes by the micro-batches of the window. "
        "Where all windows are equally long, any total counts as the script's own choice."
    ),
    repair=(
        "Normalise each term where it is made, by what it is a mean over, before the terms meet: loss = "
        "F.cross_entropy(..., reduction='sum') * dist.get_world_size() / token_count + coefficient * balance_loss / "
        "len(window). No factor on their sum."
    ),
    references=(
        "https://github.com/NVIDIA-NeMo/Automodel/pull/3359",
        "https://github.com/NVIDIA-NeMo/RL/pull/3791",
        "https://github.com/modelscope/ms-swift/pull/10116",
        "https://github.com/NVIDIA/Megatron-LM/pull/3159",
        "https://github.com/NVIDIA/Megatron-LM/pull/3769",
        "https://github.com/tensorflow/models/pull/6195",
    ),
    related=("divided-twice", "window-sum-not-mean", "denominator-window-mismatch"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws a window of micro-batches with tokens and an auxiliary term."""
    width = source.randint(1, 3)
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(2 * source.randint(1, 4))]
    return [(main, source.randint(1, 9), extra) for main, extra in zip(vectors[::2], vectors[1::2], strict=True)]


def law(window, solve):
    """Holds each term alone to its own denominator, in exact fractions, and both together to their sum."""
    from fractions import Fraction

    exact = [([Fraction(v) for v in main], count, [Fraction(v) for v in extra]) for main, count, extra in window]
    zeros = [Fraction(0)] * len(exact[0][0])
    main = solve([(main, count, zeros) for main, count, _ in exact])
    extra = solve([(zeros, count, extra) for _, count, extra in exact])
    total = sum(count for _, count, _ in window)
    return (
        solve(exact) == [a + b for a, b in zip(main, extra, strict=True)]
        and [v * total for v in main] == [sum(column) for column in zip(*(row[0] for row in window), strict=True)]
        and [v * len(window) for v in extra]
        == [sum(column) for column in zip(*(row[2] for row in window), strict=True)]
    )


def broken(window):
    total = max(sum(count for _, count, _ in window), 1)
    main = [sum(column) for column in zip(*(row[0] for row in window), strict=True)]
    extra = [sum(column) for column in zip(*(row[2] for row in window), strict=True)]
    return [m / total + e for m, e in zip(main, extra, strict=True)]


def attempt(window):
    total = max(sum(count for _, count, _ in window), 1)
    main = [sum(column) for column in zip(*(row[0] for row in window), strict=True)]
    extra = [sum(column) for column in zip(*(row[2] for row in window), strict=True)]
    return [(m / total + e) / len(window) for m, e in zip(main, extra, strict=True)]


def fixed(window):
    total = max(sum(count for _, count, _ in window), 1)
    main = [sum(column) for column in zip(*(row[0] for row in window), strict=True)]
    extra = [sum(column) for column in zip(*(row[2] for row in window), strict=True)]
    return [m / total + e / len(window) for m, e in zip(main, extra, strict=True)]


def checks(N, solve, check):
    check("two micro-batches", solve([([2 * N], 1, [4 * N]), ([6 * N], 3, [8 * N])]), [8 * N])
    check("two coordinates", solve([([4 * N, 0], 2, [0, N]), ([4 * N, 8], 2, [0, 3 * N])]), [2 * N, 2 * N + 2])
    check("auxiliary term alone", solve([([0], 2, [3 * N]), ([0], 2, [5 * N])]), [4 * N])
    check("four micro-batches", solve([([N], 1, [N])] * 4), [2 * N])
    check("main term alone", solve([([2 * N], 1, [0]), ([6 * N], 3, [0])]), [2 * N])
    check("one micro-batch", solve([([6 * N], 2, [N])]), [4 * N])
    check("a micro-batch without tokens", solve([([4 * N], 2, [2 * N]), ([0], 0, [6 * N])]), [6 * N])
    check("no tokens at all", solve([([0], 0, [3 * N]), ([0], 0, [5 * N])]), [4 * N])
    check("empty window", solve([]), [])
