"""The synchronised micro-batch is not the last: what follows it stays local."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=49,
    slug="sync-on-wrong-microbatch",
    title="The synchronised micro-batch is not the stepping one",
    group="synchronisation",
    abstract="The micro-batches after the synchronised one stay on their rank, and the replicas drift apart.",
    root_cause="The switch of no_sync() is off by one, or toggled on another count than the optimizer's.",
    failure=(
        "Windows of two, 1 and 5 on the first rank, 3 and 13 on the second. Synchronised after the first micro-batch, "
        "the ranks step on 3.5 and on 7.5, where 5.5 is right on both."
    ),
    failed_approach=(
        "Synchronising where (m + 1) % accumulation == 0 mends the full windows. The optimizer also steps at the end "
        "of the epoch, and a short last window never reaches that count: it stays local altogether."
    ),
    relevance=(
        "Each window leaves the replicas a little further apart, and with a full window of many micro-batches nearly "
        "all of the update is local. Met in pipeline schedules that toggle the switch in the cooldown phase, which "
        "some stages don't have, and in two-level reductions that accumulate behind the second level."
    ),
    limitations=(
        "The wrapper averages what has been accumulated when it synchronises, as DDP does; a reducer that keeps the "
        "new part apart from the accumulated one is not modelled."
    ),
    contract=(
        "Given the window of micro-batch gradients of each rank and the length of a full window, return the gradient "
        "that one of the ranks steps on: the mean over all ranks and micro-batches, also of a window that ends early; "
        "an empty window gives []."
    ),
    domain=(
        "job: a dict with `windows`, one list of micro-batch gradients for each rank, all equally long, a gradient a "
        "list of finite numbers, all of one length; `accumulation`, the micro-batches of a full window, no fewer than "
        "there are; `rank`, an index of `windows`."
    ),
    clauses=(
        Clause(
            "all-parts",
            "algebraic",
            "The update holds every micro-batch of every rank, alike.",
            ("full window", "last micro-batch of the other rank", "three ranks"),
        ),
        Clause(
            "short-window",
            "boundary",
            "A window that ends early is reduced as a full one is.",
            ("short window", "short window of one"),
        ),
        Clause("no-accumulation", "boundary", "A window of one is the mean over the ranks.", ("no accumulation",)),
        Clause("one-rank", "boundary", "A single rank steps on the mean of its window.", ("one rank",)),
        Clause("empty", "boundary", "Without any micro-batch there is no update: [].", ("empty windows",)),
    ),
    promised="mean",
    by_signs_alone=True,
    signs=signs({Sign.UNSYNCHRONISED_TAIL}),
    never=frozenset({Sign.SINGLE_RANK, Sign.SINGLE_MICRO_BATCH}),
    separated_by="whether the forward of the last micro-batch runs inside no_sync()",
    symptoms=("The all-reduce runs on the first micro-batch, and the later ones stay on their ranks.",),
    audit_sees=(
        "Coefficients that are alike on all ranks up to one micro-batch of the window, and behind it are those of the "
        "rank's own contributions, with nothing of the others."
    ),
    repair=(
        "Synchronise the last micro-batch: with nullcontext() if last else model.no_sync(): loss = "
        "loss_of(model(inputs)); loss.backward(). last: true in the micro-batch before optimizer.step(), also in a "
        "short last window"
    ),
    references=(
        "https://github.com/huggingface/picotron/pull/5",
        "https://github.com/pytorch/pytorch/pull/125484",
    ),
    related=("forward-outside-sync-context", "never-synchronised", "reduced-again", "partial-window-full-divisor"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Lays the windows out as one contribution for each rank and micro-batch, seen by the job's rank."""
    cells = {(rank, m): 1 for rank, window in enumerate(job["windows"]) for m in range(len(window))}
    gradients = [gradient for window in job["windows"] for gradient in window]
    return gradients, Layout.grid(cells, observer=job["rank"])


def sample(source):
    """Draws windows of 1 to 4 micro-batches, full ones or short, on 1 to 4 ranks."""
    width, length = source.randint(1, 3), source.randint(1, 4)
    windows = [
        [[source.randint(-50, 50) for _ in range(width)] for _ in range(length)] for _ in range(source.randint(1, 4))
    ]
    return {
        "windows": windows,
        "accumulation": length + source.choice([0, 0, 1, 2]),
        "rank": source.randrange(len(windows)),
    }


def broken(job):
    windows, accumulation = job["windows"], job["accumulation"]
    length = len(windows[0])
    held = [[0] * len(window[0]) for window in windows if window]
    for m in range(length):
        held = [[a + g for a, g in zip(one, window[m], strict=True)] for one, window in zip(held, windows, strict=True)]
        synchronise = m % accumulation == 0
        if synchronise:
            mean = [sum(column) / len(held) for column in zip(*held, strict=True)]
            held = [mean for _ in held]
    return [value / length for value in held[job["rank"]]] if length else []


def attempt(job):
    windows, accumulation = job["windows"], job["accumulation"]
    length = len(windows[0])
    held = [[0] * len(window[0]) for window in windows if window]
    for m in range(length):
        held = [[a + g for a, g in zip(one, window[m], strict=True)] for one, window in zip(held, windows, strict=True)]
        synchronise = (m + 1) % accumulation == 0
        if synchronise:
            mean = [sum(column) / len(held) for column in zip(*held, strict=True)]
            held = [mean for _ in held]
    return [value / length for value in held[job["rank"]]] if length else []


def fixed(job):
    windows = job["windows"]
    length = len(windows[0])
    held = [[sum(column) for column in zip(*window, strict=True)] for window in windows]
    return [sum(column) / (len(held) * length) for column in zip(*held, strict=True)]


def checks(N, solve, check):
    two = [[[N], [5 * N]], [[3 * N], [13 * N]]]
    check("full window", solve({"windows": two, "accumulation": 2, "rank": 0}), [11 * N / 2])
    tail = [[[0], [0]], [[0], [8 * N]]]
    check("last micro-batch of the other rank", solve({"windows": tail, "accumulation": 2, "rank": 0}), [2 * N])
    three = [[[N], [N]], [[N], [N + 6]], [[N], [N]]]
    check("three ranks", solve({"windows": three, "accumulation": 2, "rank": 1}), [N + 1])
    check("short window", solve({"windows": two, "accumulation": 4, "rank": 1}), [11 * N / 2])
    check("short window of one", solve({"windows": [[[N, 2]], [[3 * N, 4]]], "accumulation": 2, "rank": 0}), [2 * N, 3])
    check("no accumulation", solve({"windows": [[[N, 2]], [[3 * N, 4]]], "accumulation": 1, "rank": 1}), [2 * N, 3])
    check("one rank", solve({"windows": [[[N], [N + 4]]], "accumulation": 2, "rank": 0}), [N + 2])
    check("empty windows", solve({"windows": [[], []], "accumulation": 2, "rank": 0}), [])


def edges(source):
    """Draws windows that end long before they are full, and full ones of many micro-batches."""
    windows = [[[source.randint(-50, 50) for _ in range(2)] for _ in range(8)] for _ in range(3)]
    return [
        {"windows": [window[:length] for window in windows], "accumulation": accumulation, "rank": source.randrange(3)}
        for length, accumulation in ((1, 8), (1, 10**6), (3, 64), (7, 8), (8, 8), (8, 16), (0, 8))
    ]
