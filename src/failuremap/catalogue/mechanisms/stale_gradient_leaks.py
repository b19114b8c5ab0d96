"""Leftover buffer contents are added to the next gradient."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=64,
    slug="stale-gradient-leaks",
    title="Leftover buffer contents are added to the next gradient",
    group="window-parts",
    abstract="Each update holds the one before it as well: old gradients are stepped on again and again.",
    root_cause="zero_grad() is missing, comes at the wrong place, or clears another buffer than the one stepped on.",
    failure=(
        "Gradients of 1, 2 and 4 in three steps give updates of 1, 3 and 7: the first gradient is applied three times. "
        "With a steady gradient g, step t moves by t times g, as momentum of 1 would."
    ),
    failed_approach=(
        "Clearing the shard of the buffer that this rank owns leaves the rest: where the buffer is also the one that "
        "other ranks' parameters are gathered into, their values stay and are taken for gradients."
    ),
    relevance=(
        "The step grows until it diverges, or until clipping holds its length and old directions fill it. It was met "
        "in Megatron-Core's layer-wise distributed optimizer, where the receive buffer of a parameter gather is the "
        "gradient buffer, and in a distributed optimizer of ElasticDL without zero_grad()."
    ),
    limitations="One step with what it finds; how the leftover grows over the steps is left out.",
    contract=(
        "Given a buffer with leftover contents, the [start, stop) of this rank's shard in it, and new gradients, "
        "return the elementwise sum of the new gradients alone; without any return []."
    ),
    domain=(
        "given: {'buffer': a list of numbers, nan and inf among them; 'shard': [start, stop] with 0 <= start <= stop "
        "<= the buffer's length; 'parts': lists of finite numbers, each as long as the buffer}."
    ),
    clauses=(
        Clause(
            "no-leftover",
            "algebraic",
            "The result does not depend on what the buffer held.",
            ("gradient of the step before", "parameters gathered by others", "leftover cancels"),
        ),
        Clause("all-parts", "algebraic", "All new gradients are added.", ("clean buffer", "single part")),
        Clause("not-finite", "numeric", "A leftover nan is replaced, not multiplied by 0.", ("nan left behind",)),
        Clause("no-part", "boundary", "Without a new gradient there is no update: [].", ("no part",)),
        Clause("input-kept", "purity", "The buffer and the gradients handed over stay.", ("buffer left as it was",)),
    ),
    promised="sum",
    by_signs_alone=True,
    signs=signs({Sign.PREVIOUS_UPDATE_ADDED}),
    never=frozenset({Sign.PREVIOUS_UPDATE_ONLY}),
    separated_by="whether the new contributions are in the update: they are here",
    audit_sees=(
        "From the second step on, an update that is the right combination of the new contributions plus the update of "
        "the step before, times a factor (1 where nothing was cleared)."
    ),
    repair=(
        "Clear after each step: optimizer.step(); optimizer.zero_grad(set_to_none=True), for every optimizer, and "
        "with it each buffer of your own that gradients are added to."
    ),
    references=(
        "https://github.com/NVIDIA/Megatron-LM/pull/4609",
        "https://github.com/sql-machine-learning/elasticdl/pull/2426",
    ),
    related=("previous-gradient-applied", "tail-window-dropped", "accumulator-overwritten"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(given):
    """Takes each new gradient as one contribution of one unit."""
    return given["parts"], Layout.from_counts([1] * len(given["parts"]))


def sample(source):
    """Draws a dirty buffer, a shard of it and new gradients."""
    width = source.randint(1, 4)
    start, stop = sorted((source.randrange(width + 1), source.randrange(width + 1)))
    parts = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 5))]
    return {"buffer": [source.randint(-9, 9) for _ in range(width)], "shard": [start, stop], "parts": parts}


def broken(given):
    total = list(given["buffer"])
    for part in given["parts"]:
        total = [held + value for held, value in zip(total, part, strict=True)]
    return total if given["parts"] else []


def attempt(given):
    start, stop = given["shard"]
    total = [0 if start <= place < stop else value for place, value in enumerate(given["buffer"])]
    for part in given["parts"]:
        total = [held + value for held, value in zip(total, part, strict=True)]
    return total if given["parts"] else []


def fixed(given):
    total = [0] * len(given["buffer"])
    for part in given["parts"]:
        total = [held + value for held, value in zip(total, part, strict=True)]
    return total if given["parts"] else []


def checks(N, solve, check):
    new = [[N, 2 * N], [3 * N, 4 * N]]
    check("gradient of the step before", solve({"buffer": [N, N], "shard": [0, 2], "parts": new}), [4 * N, 6 * N])
    check("parameters gathered by others", solve({"buffer": [0, N], "shard": [0, 1], "parts": new}), [4 * N, 6 * N])
    check("leftover cancels", solve({"buffer": [-4 * N, N], "shard": [1, 2], "parts": new}), [4 * N, 6 * N])
    check("clean buffer", solve({"buffer": [0, 0], "shard": [0, 1], "parts": new}), [4 * N, 6 * N])
    check("single part", solve({"buffer": [0, 0], "shard": [0, 0], "parts": [[N, -N]]}), [N, -N])
    after_nan = solve({"buffer": [N, float("nan")], "shard": [0, 1], "parts": new})
    check("nan left behind", [abs(value) < 99 for value in after_nan], [True, True])
    check("no part", solve({"buffer": [N, N], "shard": [0, 2], "parts": []}), [])
    given = {"buffer": [N, N], "shard": [0, 1], "parts": [[N, N]]}
    solve(given)
    check("buffer left as it was", [given["buffer"], given["parts"]], [[N, N], [[N, N]]])


def edges(source):
    """Draws buffers of nan and infinities, and shards of all and of nothing."""
    nan, inf = float("nan"), float("inf")
    parts = [[source.randint(-50, 50) for _ in range(3)] for _ in range(3)]
    buffers = [nan, nan, nan], [inf, -inf, 0.0], [1e300, nan, -7]
    return [
        {"buffer": list(buffer), "shard": list(shard), "parts": given}
        for buffer in buffers
        for shard in ([0, 3], [1, 2], [0, 0])
        for given in (parts, parts[:1], [])
    ] + [{"buffer": [], "shard": [0, 0], "parts": [[], []]}]
