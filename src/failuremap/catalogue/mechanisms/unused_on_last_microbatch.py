"""Parameters unused in the last micro-batch are never synchronised."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=54,
    slug="unused-on-last-microbatch",
    title="Parameters unused in the last micro-batch are never synchronised",
    group="synchronisation",
    abstract="A parameter that only earlier micro-batches of the window used keeps its local gradient on each rank.",
    root_cause="What has to be reduced is decided by the parameters of the pass that synchronises, not of the window.",
    failure=(
        "A window of two on two ranks: an expert gets 4 and 8 in the first micro-batch and isn't chosen in the second. "
        "The ranks step on 2 and on 4, half of their own, where 3 is right; all other parameters agree."
    ),
    failed_approach=(
        "A parameter is reduced where this rank used it in any micro-batch. Ranks that did not use it take no part, "
        "and keep no gradient at all where the others step: what counts is use on any rank."
    ),
    relevance=(
        "Stochastic depth, routed experts and heads for some batches only drift between replicas, the more the more "
        "rarely they are used. DDP with find_unused_parameters=True did so until its map of used parameters was kept "
        "under no_sync(), too; hooks of one's own that reduce in the last backward do so still."
    ),
    limitations=(
        "One parameter is looked at. That ranks which disagree on the parameters to reduce hang or mix tensors up, as "
        "real collectives do, is not modelled."
    ),
    contract=(
        "Given a parameter's gradient in each micro-batch of each rank, None where the pass did not use it, and a "
        "rank: return what that rank steps on, the mean over all ranks and micro-batches with unused ones as 0; [] "
        "where no pass used it."
    ),
    domain=(
        "job: a dict with `windows`, for each rank a list of micro-batch gradients, all equally long and not empty, a "
        "gradient a list of finite numbers, all of one length, or None; `rank`, an index of `windows`."
    ),
    clauses=(
        Clause(
            "used-earlier",
            "algebraic",
            "A parameter that was used in any micro-batch is reduced, also if the last did without it.",
            ("first micro-batch only", "second rank, first micro-batch only", "used by one rank alone"),
        ),
        Clause(
            "used-elsewhere",
            "algebraic",
            "A rank that did not use it steps on the others' gradient.",
            ("this rank did not use it",),
        ),
        Clause("used-last", "algebraic", "One used in the last micro-batch is reduced once.", ("used throughout",)),
        Clause("one-rank", "boundary", "A single rank steps on its own mean.", ("one rank",)),
        Clause("never-used", "boundary", "A parameter without any gradient gets no update: [].", ("never used",)),
    ),
    promised="mean",
    by_signs_alone=True,
    signs=signs(
        {Sign.UNUSED_IN_LAST_MICRO_BATCH, Sign.SOME_PARAMETERS},
        {Sign.UNUSED_IN_LAST_MICRO_BATCH, Sign.SOME_PARAMETERS, Sign.OWN_RANK_ONLY},
    ),
    separated_by="the parameters concerned: those without a gradient in the window's last micro-batch, and only these",
    symptoms=(
        "Parameters that the last micro-batch does not use are never synchronised, under find_unused_parameters.",
    ),
    audit_sees=(
        "Parameters whose update lacks other ranks' contributions, all from micro-batches before the last, beside "
        "parameters that are reduced."
    ),
    repair=(
        "Reduce what the window used on any rank: after the last backward, used = torch.tensor([float(p.grad is not "
        "None) for p in params]); dist.all_reduce(used); then for each p with used > 0, with zeros where p.grad is "
        "None: dist.all_reduce(p.grad); p.grad /= dist.get_world_size(). With DDP: a torch release that keeps its map "
        "under no_sync(), or none of no_sync() at all."
    ),
    references=(
        "https://github.com/pytorch/pytorch/issues/69031",
        "https://github.com/pytorch/pytorch/pull/124193",
        "https://github.com/mosaicml/composer/issues/9",
        "https://github.com/mosaicml/composer/pull/48",
    ),
    related=("param-without-hook", "sync-on-wrong-microbatch", "partials-not-reduced", "misaligned-shards"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Lays the windows out as one contribution for each rank and micro-batch; one that is None is zeros."""
    parts = [part for window in job["windows"] for part in window]
    width = max(len(part) for part in parts if part is not None)
    cells = {(rank, m): 1 for rank, window in enumerate(job["windows"]) for m in range(len(window))}
    return [part if part is not None else [0] * width for part in parts], Layout.grid(cells)


def sample(source):
    """Draws windows of 1 to 3 micro-batches on 1 to 4 ranks, of which the first one used the parameter."""
    width, length, ranks = source.randint(1, 3), source.randint(1, 3), source.randint(1, 4)
    windows = [
        [[source.randint(-50, 50) for _ in range(width)] if source.random() < 0.5 else None for _ in range(length)]
        for _ in range(ranks)
    ]
    windows[0][0] = [source.randint(-50, 50) for _ in range(width)]
    return {"windows": windows, "rank": source.randrange(ranks)}


def broken(job):
    windows = job["windows"]
    length = len(windows[0])
    used = any(window[-1] is not None for window in windows)
    chosen = windows if used else [windows[job["rank"]]]
    parts = [part for window in chosen for part in window if part is not None]
    return [sum(column) / (length * len(chosen)) for column in zip(*parts, strict=True)]


def attempt(job):
    windows = job["windows"]
    length = len(windows[0])
    used = [any(part is not None for part in window) for window in windows]
    chosen = windows if used[job["rank"]] else []
    parts = [part for window in chosen for part in window if part is not None]
    return [sum(column) / (length * len(chosen)) for column in zip(*parts, strict=True)]


def fixed(job):
    windows = job["windows"]
    length = len(windows[0])
    parts = [part for window in windows for part in window if part is not None]
    return [sum(column) / (length * len(windows)) for column in zip(*parts, strict=True)]


def checks(N, solve, check):
    early = [[[4 * N], None], [[8 * N], None]]
    check("first micro-batch only", solve({"windows": early, "rank": 0}), [3 * N])
    check("second rank, first micro-batch only", solve({"windows": early, "rank": 1}), [3 * N])
    alone = [[[4 * N], None], [None, None]]
    check("used by one rank alone", solve({"windows": alone, "rank": 0}), [N])
    check("this rank did not use it", solve({"windows": alone, "rank": 1}), [N])
    full = [[[N, 0], [N + 2, 4]], [[N + 4, 4], [N + 6, 0]]]
    check("used throughout", solve({"windows": full, "rank": 1}), [N + 3, 2])
    check("one rank", solve({"windows": [[[2 * N], None]], "rank": 0}), [N])
    check("never used", solve({"windows": [[None] * N, [None] * N], "rank": 0}), [])


def edges(source):
    """Draws a parameter that one pass alone used, each of six in turn, and ranks that used it nowhere."""
    gradient = [source.randint(-50, 50) for _ in range(2)]
    used = [[[gradient if 3 * rank + m == at else None for m in range(3)] for rank in range(2)] for at in range(7)]
    idle = [[[gradient, None], [None, None], [[0, 0], gradient], [None, None], [None, [0, 0]]], [[[0, 0], None]] * 2]
    return [{"windows": windows, "rank": rank} for windows in (*used, *idle) for rank in (0, 1)]
