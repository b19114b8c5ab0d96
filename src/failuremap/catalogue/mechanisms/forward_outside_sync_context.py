"""The synchronisation switch is set after the forward pass, which decides."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=50,
    slug="forward-outside-sync-context",
    title="The synchronisation switch is set after the forward pass",
    group="synchronisation",
    abstract="DDP arms its reducer in forward; a forward under no_sync() leaves its backward unsynchronised.",
    root_cause="Only one of the two passes stands inside no_sync().",
    failure=(
        "Windows of two, 1 and 5 on the first rank, 3 and 13 on the second. With the forwards of both under no_sync() "
        "and the last backward outside, the ranks step on 3 and on 8, where 5.5 is right."
    ),
    failed_approach=(
        "The forward is moved out of no_sync() and the backward left in it. Every forward then arms the reducer, so "
        "every backward synchronises: the update is right, at as many all-reduces as there are micro-batches."
    ),
    relevance=(
        "One half of the mistake trains R models; the other pays for every micro-batch's traffic and shows in a "
        "profile only. Trainers that compute the loss in one function and call backward in another had the switch in "
        "just one of them."
    ),
    limitations=(
        "The reducer's one rule is modelled: what the forward saw decides. Its unused-parameter search, static graphs "
        "and FSDP, whose switch is read in backward, behave otherwise."
    ),
    contract=(
        "Given the window of micro-batch gradients of each rank, return what each rank steps on, and last the number "
        "of all-reduces as [number]: the mean over all ranks and micro-batches on every rank, by one all-reduce; an "
        "empty window gives [[0]]."
    ),
    domain=(
        "windows: one list of micro-batch gradients for each rank, all equally long, a gradient a list of finite "
        "numbers, all of one length."
    ),
    clauses=(
        Clause(
            "mean-on-all-ranks",
            "algebraic",
            "Every rank steps on the mean over all ranks and micro-batches.",
            ("two by two", "last micro-batch of one rank", "three micro-batches"),
        ),
        Clause(
            "one-all-reduce",
            "numeric",
            "One all-reduce is enough for a window, however long.",
            ("ranks alike", "three micro-batches"),
        ),
        Clause("one-micro-batch", "boundary", "A window of one is reduced like any other.", ("one micro-batch",)),
        Clause("one-rank", "boundary", "A single rank steps on the mean of its window.", ("one rank",)),
        Clause(
            "empty", "boundary", "Without any micro-batch there is neither update nor all-reduce.", ("empty window",)
        ),
    ),
    promised="",
    law="All ranks hold the exact mean over ranks and micro-batches, and one all-reduce was made for the window.",
    by_signs_alone=True,
    signs=signs(
        {Sign.FORWARD_UNSYNCHRONISED, Sign.OWN_RANK_ONLY},
        {Sign.FORWARD_UNSYNCHRONISED, Sign.UNSYNCHRONISED_TAIL},
        {Sign.FORWARD_UNSYNCHRONISED, Sign.REPLICAS_DIFFER},
    ),
    never=frozenset({Sign.SINGLE_RANK, Sign.FORWARD_BYPASSED_WRAPPER}),
    separated_by="whether backward runs inside no_sync() as well",
    symptoms=(
        "no_sync wraps the forward alone, or the forward lies outside of it: accumulation is never synchronised.",
    ),
    audit_sees=(
        "Updates that hold the rank's own contributions only, behind forwards that ran under no_sync() and a last "
        "backward that did not. Of the costly half, which trains right, nothing."
    ),
    repair=(
        "Put both passes under one switch: with nullcontext() if last else model.no_sync(): loss = "
        "loss_of(model(inputs)); loss.backward(). last: true in the micro-batch before optimizer.step()"
    ),
    references=(
        "https://github.com/baidu-baige/LoongForge/pull/163",
        "https://github.com/facebookresearch/ClassyVision/pull/706",
    ),
    related=("sync-on-wrong-microbatch", "reducer-bypassed", "never-synchronised"),
    published="2026-11-30",
    modified="2026-11-30",
)


def law(windows, solve):
    """Compares every rank with the exact mean, and counts the all-reduces."""
    from fractions import Fraction

    *held, counted = solve(windows)
    parts = [gradient for window in windows for gradient in window]
    mean = [sum(map(Fraction, column), Fraction(0)) / len(parts) for column in zip(*parts, strict=True)]
    close = all(abs(Fraction(a) - b) < Fraction(1, 10**9) for one in held for a, b in zip(one, mean, strict=True))
    return close and len(held) == len(windows) and counted == [1]


def sample(source):
    """Draws windows of 1 to 4 micro-batches on 1 to 4 ranks."""
    width, length = source.randint(1, 3), source.randint(1, 4)
    return [
        [[source.randint(-50, 50) for _ in range(width)] for _ in range(length)] for _ in range(source.randint(1, 4))
    ]


def broken(windows):
    length, all_reduces = len(windows[0]), 0
    held = [[0] * len(window[0]) for window in windows if window]
    for m in range(length):
        no_sync = True
        armed = not no_sync  # in forward
        no_sync = m < length - 1
        held = [[a + g for a, g in zip(one, window[m], strict=True)] for one, window in zip(held, windows, strict=True)]
        if armed:
            mean = [sum(column) / len(held) for column in zip(*held, strict=True)]
            held, all_reduces = [mean for _ in held], all_reduces + 1
    return [[value / length for value in one] for one in held] + [[all_reduces]]


def attempt(windows):
    length, all_reduces = len(windows[0]), 0
    held = [[0] * len(window[0]) for window in windows if window]
    for m in range(length):
        no_sync = False
        armed = not no_sync  # in forward
        no_sync = m < length - 1
        held = [[a + g for a, g in zip(one, window[m], strict=True)] for one, window in zip(held, windows, strict=True)]
        if armed:
            mean = [sum(column) / len(held) for column in zip(*held, strict=True)]
            held, all_reduces = [mean for _ in held], all_reduces + 1
    return [[value / length for value in one] for one in held] + [[all_reduces]]


def fixed(windows):
    length, all_reduces = len(windows[0]), 0
    held = [[0] * len(window[0]) for window in windows if window]
    for m in range(length):
        no_sync = m < length - 1
        armed = not no_sync  # in forward
        held = [[a + g for a, g in zip(one, window[m], strict=True)] for one, window in zip(held, windows, strict=True)]
        if armed:
            mean = [sum(column) / len(held) for column in zip(*held, strict=True)]
            held, all_reduces = [mean for _ in held], all_reduces + 1
    return [[value / length for value in one] for one in held] + [[all_reduces]]


def checks(N, solve, check):
    check("two by two", solve([[[N], [5 * N]], [[3 * N], [13 * N]]]), [[11 * N / 2]] * 2 + [[1]])
    check("last micro-batch of one rank", solve([[[0], [0]], [[0], [8 * N]]]), [[2 * N]] * 2 + [[1]])
    check("three micro-batches", solve([[[N], [N], [N]], [[N], [N], [N + 6]]]), [[N + 1]] * 2 + [[1]])
    check("ranks alike", solve([[[N], [N + 2]], [[N], [N + 2]]])[-1], [1])
    check("one micro-batch", solve([[[N, 2]], [[3 * N, 4]]]), [[2 * N, 3]] * 2 + [[1]])
    check("one rank", solve([[[N], [N + 4]]])[0], [N + 2])
    check("empty window", solve([[], []]), [[0]])
