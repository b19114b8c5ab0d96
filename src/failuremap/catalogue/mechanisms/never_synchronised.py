"""Gradients are never reduced: each rank trains a model of its own."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=51,
    slug="never-synchronised",
    title="Gradients are never reduced between the ranks",
    group="synchronisation",
    abstract="Each rank steps on its own gradient: R models drift apart, and one of them is saved.",
    root_cause="The loop has no reduction at all, or no_sync() is on in every micro-batch.",
    failure=(
        "Windows of two micro-batches, 1 and 3 on the first rank, 5 and 7 on the second: the ranks step on 2 and on 6, "
        "where 4 is right on both."
    ),
    failed_approach=(
        "Broadcasting the first rank's gradient before the step keeps the replicas equal, and throws the work of all "
        "other ranks away: the drift is gone and the batch is still 1/R of what it should be."
    ),
    relevance=(
        "Throughput is R-fold and looks like scaling, while the model learns from a batch R times smaller than its "
        "learning rate was chosen for. Met in trainers without the mean over devices, and with an FSDP mesh of shard "
        "size 1 that left no group to reduce in."
    ),
    limitations="The ranks start from equal weights and only one step is looked at: the drift that follows is not.",
    contract=(
        "Given the window of micro-batch gradients of each rank, return the gradient that one of the ranks steps on: "
        "the mean over all ranks and micro-batches; no gradient at all gives []."
    ),
    domain=(
        "job: a dict with `windows`, one list of micro-batch gradients for each rank, all equally long, a gradient a "
        "list of finite numbers, all of one length; `rank`, an index of `windows`."
    ),
    clauses=(
        Clause(
            "mean-over-ranks",
            "algebraic",
            "The update is the mean over the ranks.",
            ("two ranks", "second of two ranks", "three ranks"),
        ),
        Clause("window", "algebraic", "All micro-batches of a rank's window take part.", ("windows of two",)),
        Clause("equal-ranks", "algebraic", "Ranks with equal gradients keep them.", ("ranks alike",)),
        Clause("one-rank", "boundary", "A single rank steps on the mean of its own window.", ("one rank",)),
        Clause("empty", "boundary", "Without any micro-batch there is no update: [].", ("empty windows",)),
    ),
    promised="mean",
    followed=("own_rank", "own_rank_weighted"),
    attempt_follows="first_rank",
    by_signs_alone=True,
    signs=signs(
        {Sign.OWN_RANK_ONLY, Sign.NO_DDP},
        {Sign.OWN_RANK_ONLY, Sign.SYNCHRONISATION_OFF},
    ),
    never=frozenset(
        {
            Sign.SINGLE_RANK,
            Sign.SOME_PARAMETERS,
            Sign.FORWARD_BYPASSED_WRAPPER,
            Sign.FORWARD_UNSYNCHRONISED,
            Sign.RESULT_UNUSED,
            Sign.REDUCTION_UNAWAITED,
            Sign.REDUCTION_FAILED,
        }
    ),
    separated_by="whether the model is wrapped, and whether the wrapper's forward is called outside no_sync()",
    symptoms=(
        "The model was not wrapped in DDP, no all_reduce: each rank trains alone.",
        "No gradient synchronisation at all; manual optimisation forgot it.",
    ),
    audit_sees=(
        "Each rank's update holds its own contributions and none of another; the model is not wrapped, or every "
        "forward and backward ran inside no_sync()."
    ),
    repair=(
        "Wrap and call the wrapper: model = DistributedDataParallel(model); run the window's last forward and "
        "backward outside no_sync(). Without DDP, start from equal weights, and before each optimizer.step(): for p "
        "in model.parameters(): dist.all_reduce(p.grad); p.grad /= dist.get_world_size()"
    ),
    references=(
        "https://github.com/HenryNdubuaku/nanodl/issues/12",
        "https://github.com/NVIDIA/TransformerEngine/issues/441",
        "https://github.com/verl-project/verl/issues/7493",
    ),
    related=("reducer-bypassed", "sync-on-wrong-microbatch", "first-rank-broadcast", "partials-not-reduced"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Lays the windows out as one contribution for each rank and micro-batch, seen by the job's rank."""
    cells = {(rank, m): 1 for rank, window in enumerate(job["windows"]) for m in range(len(window))}
    gradients = [gradient for window in job["windows"] for gradient in window]
    return gradients, Layout.grid(cells, observer=job["rank"])


def sample(source):
    """Draws windows of 1 to 4 micro-batches on 1 to 5 ranks."""
    width, length = source.randint(1, 3), source.randint(1, 4)
    windows = [
        [[source.randint(-50, 50) for _ in range(width)] for _ in range(length)] for _ in range(source.randint(1, 5))
    ]
    return {"windows": windows, "rank": source.randrange(len(windows))}


def broken(job):
    own = job["windows"][job["rank"]]
    return [sum(column) / len(own) for column in zip(*own, strict=True)]


def attempt(job):
    sent = job["windows"][0]
    return [sum(column) / len(sent) for column in zip(*sent, strict=True)]


def fixed(job):
    parts = [gradient for window in job["windows"] for gradient in window]
    return [sum(column) / len(parts) for column in zip(*parts, strict=True)]


def checks(N, solve, check):
    two = [[[N, 2 * N]], [[3 * N, 8 * N]]]
    check("two ranks", solve({"windows": two, "rank": 0}), [2 * N, 5 * N])
    check("second of two ranks", solve({"windows": two, "rank": 1}), [2 * N, 5 * N])
    check("windows of two", solve({"windows": [[[N], [N + 2]], [[N + 4], [N + 6]]], "rank": 1}), [N + 3])
    check("three ranks", solve({"windows": [[[N]], [[N + 1]], [[N + 5]]], "rank": 0}), [N + 2])
    check("ranks alike", solve({"windows": [[[N], [3]], [[N], [3]]], "rank": 1}), [(N + 3) / 2])
    check("one rank", solve({"windows": [[[N, 1], [N, 3]]], "rank": 0}), [N, 2])
    check("empty windows", solve({"windows": [[], []], "rank": 0}), [])
