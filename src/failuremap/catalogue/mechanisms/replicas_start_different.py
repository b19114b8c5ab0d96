"""Replicas start from different parameters: one update moves R different models."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=71,
    slug="replicas-start-different",
    title="Replicas start from different parameters",
    group="replica-agreement",
    abstract="The gradients are averaged over models that were never the same.",
    root_cause="Each rank initialises by its own seed, and nothing broadcasts the parameters of one of them.",
    failure=(
        "Replicas at 1 and 5 with an update of 2 stand at 3 and 7 afterwards: the distance of 4 stays for the whole "
        "run, each gradient is taken at a point where the other replica is not, and one of the two is saved."
    ),
    failed_approach=(
        "Broadcasting the parameters that require a gradient leaves the frozen ones different: the trained layers are "
        "equal and stand on other features on each rank."
    ),
    relevance=(
        "A seed of its own on each rank is right for data and dropout, and wrong for initial values; one call of "
        "manual_seed does both. DistributedDataParallel broadcasts parameters and buffers when it wraps; a loop that "
        "reduces by hand, and parameters that are set anew after the wrapping, have nothing that does."
    ),
    limitations="The update is given and the same on all ranks; buffers are counted among what is frozen.",
    contract=(
        "Given the replicas' initial values, which of them are trainable, and one update, return every replica after "
        "its first step: rank 0's initial values, moved by the update where they are trainable."
    ),
    domain=(
        "job: {'replicas': one list of finite numbers for each rank, 'trainable': a list of booleans, 'update': a list "
        "of finite numbers}, all of one length."
    ),
    clauses=(
        Clause(
            "equal-replicas",
            "algebraic",
            "All replicas are equal after the step.",
            ("two replicas", "three replicas", "frozen values differ"),
        ),
        Clause(
            "first-rank-start",
            "algebraic",
            "They start from rank 0's values, not from another's or from a mean.",
            ("two replicas", "only rank 0 differs"),
        ),
        Clause("frozen", "algebraic", "What is frozen is not moved.", ("frozen values differ", "all frozen")),
        Clause("equal-start", "boundary", "Equal replicas are moved as they are.", ("equal from the start",)),
        Clause("single", "boundary", "A single replica starts from its own values.", ("single replica",)),
        Clause("no-replica", "boundary", "Without a replica there is nothing to return.", ("no replica",)),
    ),
    promised="",
    law="After the step all replicas are equal, and rank 0's has moved by the update where it is trainable.",
    by_signs_alone=True,
    signs=signs({Sign.REPLICAS_DIFFER_AT_START}),
    never=frozenset({Sign.SINGLE_RANK, Sign.REPLICAS_DIFFER_LATER}),
    separated_by="the parameters before the first step",
    symptoms=(
        "Each rank initialises with another seed, and the model is not broadcast.",
        "The weights differ between ranks from the first step on.",
    ),
    audit_sees="Parameters that differ between the ranks before the first step, under updates that are the same.",
    repair=(
        "Broadcast once, before training: for t in [*model.parameters(), *model.buffers()]: dist.broadcast(t.data, "
        "src=0). DistributedDataParallel(model) does it when it wraps."
    ),
    references=("https://pytorch.org/docs/stable/notes/ddp.html",),
    related=("rank-local-step-decision", "never-synchronised", "first-rank-broadcast", "param-without-hook"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws replicas of one width, some of their values frozen, and an update."""
    width = source.randint(1, 4)
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(2, 6))]
    return {"replicas": vectors[1:], "trainable": [source.random() < 0.6 for _ in range(width)], "update": vectors[0]}


def law(job, solve):
    """Compares all replicas with each other, and the first one's way with the update."""
    replicas = solve(job)
    way = [after - before for after, before in zip(replicas[0], job["replicas"][0], strict=True)]
    expected = [value if moves else 0 for value, moves in zip(job["update"], job["trainable"], strict=True)]
    return len(replicas) == len(job["replicas"]) and all(one == replicas[0] for one in replicas) and way == expected


def broken(job):
    step = [value if moves else 0 for value, moves in zip(job["update"], job["trainable"], strict=True)]
    return [[start + value for start, value in zip(replica, step, strict=True)] for replica in job["replicas"]]


def attempt(job):
    after = []
    for replica in job["replicas"]:
        moved = []
        for first, own, moves, value in zip(job["replicas"][0], replica, job["trainable"], job["update"], strict=True):
            moved.append(first + value if moves else own)
        after.append(moved)
    return after


def fixed(job):
    step = [value if moves else 0 for value, moves in zip(job["update"], job["trainable"], strict=True)]
    return [[start + value for start, value in zip(job["replicas"][0], step, strict=True)] for _ in job["replicas"]]


def checks(N, solve, check):
    two = solve({"replicas": [[N, 0], [5 * N, N]], "trainable": [True, True], "update": [2, 2]})
    check("two replicas", two, [[N + 2, 2], [N + 2, 2]])
    three = solve({"replicas": [[N], [0], [-N]], "trainable": [True], "update": [-1]})
    check("three replicas", three, [[N - 1], [N - 1], [N - 1]])
    frozen = solve({"replicas": [[N, N], [N, 2 * N]], "trainable": [True, False], "update": [1, 1]})
    check("frozen values differ", frozen, [[N + 1, N], [N + 1, N]])
    first = solve({"replicas": [[2 * N], [N], [N]], "trainable": [True], "update": [1]})
    check("only rank 0 differs", first, [[2 * N + 1], [2 * N + 1], [2 * N + 1]])
    check("all frozen", solve({"replicas": [[N], [N]], "trainable": [False], "update": [7]}), [[N], [N]])
    equal = solve({"replicas": [[N, N], [N, N]], "trainable": [True, False], "update": [1, 1]})
    check("equal from the start", equal, [[N + 1, N], [N + 1, N]])
    single = solve({"replicas": [[N, 2 * N]], "trainable": [True, True], "update": [N, N]})
    check("single replica", single, [[2 * N, 3 * N]])
    check("no replica", solve({"replicas": [], "trainable": [], "update": []}), [])


def edges(source):
    """Draws replicas of six values of which all, none or some are trainable, and one replica alone."""
    vectors = [[source.randint(-50, 50) for _ in range(6)] for _ in range(5)]
    moved = [True] * 6, [False] * 6, [False] * 5 + [True], [True] + [False] * 5, [False, True] * 3
    jobs = [{"replicas": vectors[1:], "trainable": trainable, "update": vectors[0]} for trainable in moved]
    return [*jobs, {"replicas": vectors[1:2], "trainable": moved[4], "update": vectors[0]}]
