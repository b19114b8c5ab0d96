"""The update is the gradient of the step before."""
# mypy: disable-error-code="no-untyped-def, var-annotated"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=68,
    slug="previous-gradient-applied",
    title="The update is the gradient of the step before",
    group="window-parts",
    abstract="Each step applies what the last window computed; the newest gradient always comes one step late.",
    root_cause="The step runs before the backward of its window, or reads a buffer that is filled after it.",
    failure=(
        "Windows with gradients 1, 2 and 4 give the updates 1, 1 and 2: the first is applied twice, the last never, "
        "and each was computed at weights that have moved since."
    ),
    failed_approach=(
        "Leaving out the first step and applying what is waiting after the last one loses no gradient and repeats "
        "none; each is still applied one step late, and there is one step more than windows."
    ),
    relevance=(
        "A delay of one step makes a learning rate unstable that was stable without it, most of all early in training, "
        "where gradients change fast. It comes with double buffers that hide the reduction, an offload copy or a "
        "parameter server behind the next backward."
    ),
    limitations=(
        "The gradients are given: that a late one was computed at older weights is not modelled, nor is a delay that "
        "is meant and corrected for, as in some offloading and pipeline schemes."
    ),
    contract=(
        "Given the windows of a run in order, each a list of gradients to be summed, return one update for each "
        "window: the sum of that window's gradients."
    ),
    domain="windows: a list of windows; a window is a list of one or more lists of finite numbers, all of one length.",
    clauses=(
        Clause(
            "own-window",
            "algebraic",
            "The update at a place is made of the window at that place alone.",
            ("three windows", "sign turns", "two windows of two parts"),
        ),
        Clause("one-each", "algebraic", "There are as many updates as windows.", ("three windows", "equal windows")),
        Clause("single-window", "boundary", "A run of one window makes its update at once.", ("single window",)),
        Clause("no-window", "boundary", "Without a window there is no update.", ("no window",)),
        Clause("input-kept", "purity", "The gradients handed over are not changed.", ("windows left as they were",)),
    ),
    promised="",
    law="In a run of several windows each gets the update that it gets in a run of its own: the sum of its gradients.",
    by_signs_alone=True,
    signs=signs({Sign.PREVIOUS_UPDATE_ONLY}),
    separated_by="whether the new contributions are in the update: they are not here",
    audit_sees=(
        "From the second step on, an update that holds the contributions of the step before with the right "
        "coefficients, and none of its own."
    ),
    repair=(
        "Keep the order in every window: loss.backward(); optimizer.step(); optimizer.zero_grad(set_to_none=True). "
        "Fill a gradient buffer of your own after the backward and before the step."
    ),
    references=(),
    related=("stale-gradient-leaks", "read-before-reduced", "result-lost"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws a run of windows of one width."""
    width = source.randint(1, 3)
    sizes = [source.randint(1, 4) for _ in range(source.randint(1, 5))]
    return [[[source.randint(-50, 50) for _ in range(width)] for _ in range(size)] for size in sizes]


def law(windows, solve):
    """Compares a run with runs of one window each, and each of those with the sum, column by column."""
    alone = [solve([window]) for window in windows]
    sums = [[[sum(column) for column in zip(*window, strict=True)]] for window in windows]
    return alone == sums and solve(windows) == [update for updates in alone for update in updates]


def broken(windows):
    updates, waiting = [], None
    for window in windows:
        computed = [sum(column) for column in zip(*window, strict=True)]
        updates.append(computed if waiting is None else waiting)
        waiting = computed
    return updates


def attempt(windows):
    updates, waiting = [], []
    for window in windows:
        updates.append(waiting)
        waiting = [sum(column) for column in zip(*window, strict=True)]
    return [*updates, waiting] if windows else []


def fixed(windows):
    return [[sum(column) for column in zip(*window, strict=True)] for window in windows]


def checks(N, solve, check):
    check("three windows", solve([[[N]], [[2 * N]], [[4 * N]]]), [[N], [2 * N], [4 * N]])
    check("sign turns", solve([[[N, -N]], [[-N, N]]]), [[N, -N], [-N, N]])
    check("two windows of two parts", solve([[[N], [1]], [[3 * N], [2]]]), [[N + 1], [3 * N + 2]])
    check("equal windows", solve([[[N]], [[N]], [[N]]]), [[N], [N], [N]])
    check("single window", solve([[[N, 1], [2 * N, 1]]]), [[3 * N, 2]])
    check("no window", solve([]), [])
    windows = [[[N]], [[2 * N]]]
    solve(windows)
    check("windows left as they were", windows, [[[N]], [[2 * N]]])
