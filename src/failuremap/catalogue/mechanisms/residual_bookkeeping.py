"""The memory of error feedback is taken against the ranks' mean instead of what the rank itself has sent."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism

MECHANISM = Mechanism(
    number=14,
    slug="residual-bookkeeping",
    title="The compression residual is tracked against the wrong gradient",
    group="precision",
    abstract="Each rank should keep what compression held back; it keeps its distance from the ranks' mean.",
    root_cause=(
        "Two decompressed gradients are at hand, the rank's own and the mean that becomes the update, and the memory "
        "is the difference to the second."
    ),
    failure=(
        "Two ranks send their largest element. With [4, 1] and [-4, 1] at every step, the first elements cancel, and "
        "the memories should be [0, 1], until the second is sent. Against the mean they are [4, 1] and [-4, 1]: the "
        "first grows as fast as the second, and the update is zero for ever."
    ),
    failed_approach=(
        "Without a memory the disagreement is forgotten, and with it all that was held back: an element that is never "
        "the largest never reaches an update."
    ),
    relevance=(
        "The memories' mean over the ranks is the same in both forms, so a check that nothing is lost in the sum finds "
        "it in order. PowerSGD's factors depend on that mean alone: its authors, who were asked, and PyTorch's hook "
        "take the averaged gradient, and their updates are the same either way. With top-k, signs or quantisation, "
        "where each rank compresses for itself, they are not."
    ),
    limitations="Top-k without momentum stands for all compressors that each rank applies for itself.",
    contract=(
        "Given the ranks' gradients step by step, send at each step the largest elements of gradient plus memory, and "
        "keep the rest; return the sum of the updates, each the mean of what was sent, and then each rank's memory."
    ),
    domain=(
        "job: a dictionary of kept, how many elements are sent, and steps, a list with one list of gradients for each "
        "step, one gradient a rank, all of one length; of equal elements the first is sent."
    ),
    clauses=(
        Clause(
            "own-memory",
            "algebraic",
            "A rank's memory depends on its own gradients alone.",
            ("ranks that disagree", "everything is sent"),
        ),
        Clause(
            "sent-in-the-end",
            "algebraic",
            "What is held back grows until it is sent.",
            ("held back until it is the largest", "one rank"),
        ),
        Clause("nothing-lost", "numeric", "What was sent and what is kept add up to all.", ("ranks that agree",)),
        Clause("nothing-done", "boundary", "Without any step there is nothing to return: [].", ("no steps",)),
    ),
    promised="",
    law="Updates are the mean of those of each rank alone, memories are its own, and both add up to the gradients.",
    separated_by="one rank, or ranks whose gradients are equal",
    symptoms=("The error feedback of compressed gradients subtracts the wrong thing.",),
    audit_sees="Updates that are no combination of the gradients; it names the communication hook where there is one.",
    audit_blind="Compression is lossy by design, in the repaired job as well: the audit can't tell either of them.",
    repair=(
        "Subtract what this rank has sent, before the reduction: corrected = gradient + memory; sent = "
        "decompress(compress(corrected)); memory = corrected - sent; then dist.all_reduce(sent)."
    ),
    references=("https://github.com/epfml/powersgd/issues/3",),
    related=("reduced-precision-sum", "stale-gradient-leaks"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(job):
    def largest(vector):
        order = sorted(range(len(vector)), key=lambda j: -abs(vector[j]))
        return [value if j in order[: job["kept"]] else 0 for j, value in enumerate(vector)]

    if not job["steps"]:
        return []
    rank_count, width = len(job["steps"][0]), len(job["steps"][0][0])
    memories, total = [[0] * width for _ in range(rank_count)], [0] * width
    for gradients in job["steps"]:
        corrected = [[g + m for g, m in zip(*pair, strict=True)] for pair in zip(gradients, memories, strict=True)]
        update = [sum(column) / rank_count for column in zip(*map(largest, corrected), strict=True)]
        memories = [[c - u for c, u in zip(vector, update, strict=True)] for vector in corrected]
        total = [t + u for t, u in zip(total, update, strict=True)]
    return [total, *memories]


def attempt(job):
    def largest(vector):
        order = sorted(range(len(vector)), key=lambda j: -abs(vector[j]))
        return [value if j in order[: job["kept"]] else 0 for j, value in enumerate(vector)]

    if not job["steps"]:
        return []
    rank_count, width = len(job["steps"][0]), len(job["steps"][0][0])
    total = [0] * width
    for gradients in job["steps"]:
        update = [sum(column) / rank_count for column in zip(*map(largest, gradients), strict=True)]
        total = [t + u for t, u in zip(total, update, strict=True)]
    return [total, *[[0] * width] * rank_count]


def fixed(job):
    def largest(vector):
        order = sorted(range(len(vector)), key=lambda j: -abs(vector[j]))
        return [value if j in order[: job["kept"]] else 0 for j, value in enumerate(vector)]

    if not job["steps"]:
        return []
    rank_count, width = len(job["steps"][0]), len(job["steps"][0][0])
    memories, total = [[0] * width for _ in range(rank_count)], [0] * width
    for gradients in job["steps"]:
        corrected = [[g + m for g, m in zip(*pair, strict=True)] for pair in zip(gradients, memories, strict=True)]
        sent = [largest(vector) for vector in corrected]
        memories = [[c - s for c, s in zip(*pair, strict=True)] for pair in zip(corrected, sent, strict=True)]
        update = [sum(column) / rank_count for column in zip(*sent, strict=True)]
        total = [t + u for t, u in zip(total, update, strict=True)]
    return [total, *memories]


def checks(N, solve, check):
    def trained(kept, step_count, *gradients):
        return solve({"kept": kept, "steps": [list(gradients)] * step_count})

    apart = [4 * N, N], [-4 * N, N]
    check("ranks that disagree", trained(1, 2, *apart), [[0, 0], [0, 2 * N], [0, 2 * N]])
    check("everything is sent", trained(2, 1, [4 * N, N], [2 * N, N]), [[3 * N, N], [0, 0], [0, 0]])
    check("held back until it is the largest", trained(1, 5, *apart), [[0, 5 * N], [4 * N, 0], [-4 * N, 0]])
    check("one rank", trained(1, 3, [2 * N, N]), [[4 * N, 3 * N], [2 * N, 0]])
    check("ranks that agree", trained(1, 3, [2 * N, N], [2 * N, N]), [[4 * N, 3 * N], [2 * N, 0], [2 * N, 0]])
    check("no steps", solve({"kept": N, "steps": []}), [])


def sample(source):
    """Draws a few steps of one, two or four ranks, so that means are exact."""
    width, rank_count = source.randint(1, 4), source.choice([1, 2, 2, 4])
    steps = [
        [[source.randint(-20, 20) for _ in range(width)] for _ in range(rank_count)]
        for _ in range(source.randint(1, 4))
    ]
    return {"kept": 1 + source.randrange(width), "steps": steps}


def law(job, solve):
    """Lets each rank train alone, and adds up what was sent and what is kept."""
    total, *memories = solve(job)
    rank_count = len(memories)
    alone = [solve({**job, "steps": [[gradients[rank]] for gradients in job["steps"]]}) for rank in range(rank_count)]
    given = [sum(column) for column in zip(*(g for gradients in job["steps"] for g in gradients), strict=True)]
    kept = [sum(column) for column in zip(*memories, strict=True)]
    return (
        memories == [memory for _, memory in alone]
        and total == [sum(map(Fraction, column)) / rank_count for column in zip(*(t for t, _ in alone), strict=True)]
        and given == [rank_count * t + k for t, k in zip(total, kept, strict=True)]
    )


def edges(source):
    """Draws gradients of binary fractions, ties among the largest, and more kept than there are."""
    fractions = [[[source.randint(-99, 99) / 4096 for _ in range(4)] for _ in range(2)] for _ in range(3)]
    ties = [[[1, -1, 1, 0], [0, 0, 0, 0]]] * 3
    return [{"kept": kept, "steps": steps} for kept in (1, 2, 7) for steps in (fractions, ties)]
