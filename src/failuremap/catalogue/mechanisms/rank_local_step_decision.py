"""Ranks decide on their own whether or how far to step: equal updates, unequal ways."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=63,
    slug="rank-local-step-decision",
    title="Ranks decide on their own whether or how far to step",
    group="replica-agreement",
    abstract="The gradients agree, but each rank skips the step or sets its length by what it alone has seen.",
    root_cause=(
        "A flag (overflow, an empty batch) or a rate (progress through the data) is computed from a rank's own state "
        "and used without being made common."
    ),
    failure=(
        "With a reduced gradient of 4 and rates 1/2 and 1/4, one replica moves by 2 and the other by 1. Where one rank "
        "skips, the others are a whole step ahead, and the optimizer states differ as well."
    ),
    failed_approach=(
        "A majority vote makes the decision common, so the replicas agree. The minority's reason stands: the gradient "
        "in which one rank found inf is the one that all ranks step on."
    ),
    relevance=(
        "Replicas that have drifted keep averaging gradients of different models; where the skipped part holds a "
        "collective, the ranks hang. It was met as an overflow flag of a sharded optimizer's own shard (fairscale), as "
        "a skipped micro-batch (NeMo Automodel) and as a learning rate by each rank's own progress (nanochat)."
    ),
    limitations="One step of plain SGD; that a skipped step leaves the optimizer's state behind is not modelled.",
    contract=(
        "Given the common gradient and each rank's [overflowed, rate], return the step of every rank: [] for all of "
        "them where one has overflowed; else the least of the rates times the gradient."
    ),
    domain=(
        "job: {'gradient': a list of finite numbers, 'ranks': a list of [overflowed, rate] pairs, one a rank}; "
        "overflowed true or false, rate a number of 0 or more."
    ),
    clauses=(
        Clause(
            "one-rate",
            "algebraic",
            "All ranks go the same way, at the least of the rates.",
            ("two rates", "three rates", "rates in the other order"),
        ),
        Clause(
            "one-skips-all-skip",
            "algebraic",
            "Where one rank may not step, none does.",
            ("one of three overflowed", "one of two overflowed"),
        ),
        Clause("agreed", "boundary", "Ranks that agree do as they say.", ("all agree to step", "all overflowed")),
        Clause("single", "boundary", "A single rank decides for itself.", ("single rank",)),
        Clause("no-rank", "boundary", "Without a rank there is nothing to return.", ("no rank",)),
    ),
    promised="",
    law="All ranks go one way, which neither their order nor a rank listed twice changes: that of the most careful.",
    by_signs_alone=True,
    signs=signs({Sign.STEPS_DIFFER}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="the learning rates and the skipped steps of the ranks; the updates themselves are equal",
    symptoms=(
        "GradScaler or a nan check skips the step on one rank alone.",
        "The learning rate differs per rank.",
        "The scheduler steps on some ranks only.",
    ),
    audit_sees=(
        "Learning rates that are not the same on all ranks; or a step that one rank leaves out, having gone backward "
        "for it, and weights that differ from then on. Other settings of an optimizer are not compared."
    ),
    repair=(
        "Make the decision common before it is used: flag = torch.tensor(float(overflowed)); dist.all_reduce(flag, "
        "op=dist.ReduceOp.MAX); step only where flag is 0. The same for what a rate is computed from: "
        "dist.all_reduce(progress, op=dist.ReduceOp.MAX)"
    ),
    references=(
        "https://github.com/facebookresearch/fairscale/pull/181",
        "https://github.com/NVIDIA-NeMo/Automodel/pull/2468",
        "https://github.com/karpathy/nanochat/pull/857",
        "https://github.com/pytorch/pytorch/issues/76282",
    ),
    related=("replicas-start-different", "clip-in-wrong-place", "half-reduced-after-failure", "departed-rank-counted"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws a gradient, and for each rank whether it overflowed and a rate in eighths."""
    gradient = [source.randint(-50, 50) for _ in range(source.randint(1, 4))]
    ranks = [[source.random() < 0.2, source.randint(0, 8) / 8] for _ in range(source.randint(1, 5))]
    return {"gradient": gradient, "ranks": ranks}


def law(job, solve):
    """Asks a job of one rank for the most careful decision, and turns the ranks round."""
    ways = solve(job)
    careful = [any(overflowed for overflowed, _ in job["ranks"]), min(rate for _, rate in job["ranks"])]
    alone = solve({"gradient": job["gradient"], "ranks": [careful]})
    turned = solve({"gradient": job["gradient"], "ranks": job["ranks"][::-1]})
    own = [] if careful[0] else [careful[1] * value for value in job["gradient"]]
    return ways == turned == alone * len(job["ranks"]) and alone == [own]


def broken(job):
    ways = []
    for overflowed, rate in job["ranks"]:
        ways.append([] if overflowed else [rate * value for value in job["gradient"]])
    return ways


def attempt(job):
    against = sum(overflowed for overflowed, _ in job["ranks"])
    stop = 2 * against > len(job["ranks"])
    rate = min([rate for _, rate in job["ranks"]], default=0)
    return [[] if stop else [rate * value for value in job["gradient"]] for _ in job["ranks"]]


def fixed(job):
    stop = any(overflowed for overflowed, _ in job["ranks"])
    rate = min([rate for _, rate in job["ranks"]], default=0)
    return [[] if stop else [rate * value for value in job["gradient"]] for _ in job["ranks"]]


def checks(N, solve, check):
    gradient, slow, fast = [4 * N, -8], [N, -2], [2 * N, -4]
    half, quarter, whole, overflowed = [False, 0.5], [False, 0.25], [False, 1], [True, 0.25]
    check("two rates", solve({"gradient": gradient, "ranks": [half, quarter]}), [slow, slow])
    check("three rates", solve({"gradient": gradient, "ranks": [half, quarter, whole]}), [slow, slow, slow])
    check("rates in the other order", solve({"gradient": gradient, "ranks": [quarter, half]}), [slow, slow])
    check("one of three overflowed", solve({"gradient": gradient, "ranks": [half, overflowed, half]}), [[], [], []])
    check("one of two overflowed", solve({"gradient": gradient, "ranks": [quarter, overflowed]}), [[], []])
    check("all agree to step", solve({"gradient": gradient, "ranks": [half, half]}), [fast, fast])
    check("all overflowed", solve({"gradient": gradient, "ranks": [overflowed, overflowed]}), [[], []])
    check("single rank", solve({"gradient": gradient, "ranks": [half]}), [fast])
    check("no rank", solve({"gradient": gradient, "ranks": []}), [])


def edges(source):
    """Draws rates of 0 and beyond 1, an overflow on each rank of five in turn, and the least rate late among nine."""
    gradient = [source.randint(-50, 50) for _ in range(3)]
    rates = [1.5, 0.125, 2, 0.75, 1]
    jobs = [[[rank == at, rate] for rank, rate in enumerate(rates)] for at in range(6)]
    uneven = [0.1 + source.random(), -3e8 - source.random()]
    late = [[[False, 0.25 if rank == at else 0.7] for rank in range(9)] for at in (3, 5, 8)]
    small = {"gradient": [0.1, -1e-7, 3.3 + source.random()], "ranks": [[False, 0.7], [False, 0.9]]}
    return [
        *({"gradient": gradient, "ranks": ranks} for ranks in (*jobs, [[False, 0], [False, 3]], [[True, 0]])),
        *({"gradient": uneven, "ranks": ranks} for ranks in late),
        small,
        *({"gradient": gradient, "ranks": [[False, rate], [False, rate]]} for rate in (1000, 1e-6, 0)),
        {"gradient": gradient, "ranks": [[False, 1]] * 11 + [[True, 1]]},
        {"gradient": [3 * 10**9, -(10**8)], "ranks": [[False, 0.5], [False, 1]]},
    ]
