"""The micro-batches left over at the end of an epoch: no step of their own, and a share of the next epoch's first."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=65,
    slug="tail-window-dropped",
    title="The tail micro-batches never reach a step or leak into the next one",
    group="window-parts",
    abstract=(
        "A step is taken after every G micro-batches alone, so those left over at the end of an epoch join the next "
        "epoch's first step, and after the last epoch none at all."
    ),
    root_cause=(
        "The condition for a step is (i + 1) % G == 0. The end of the loader is no end of a window to it, and nothing "
        "clears what has been accumulated by then."
    ),
    failure=(
        "With G = 2 and two epochs of the gradients 1, 3, 5, the steps are 2 and (5 + 1 + 3)/2 = 4.5: the second holds "
        "three micro-batches over a divisor of two, and the second epoch's 5 is never applied. With fewer than G "
        "micro-batches in all no step is ever taken."
    ),
    failed_approach=(
        "Clearing the gradients at the end of the epoch stops the leak and drops the tail for good: it is computed and "
        "thrown away in every epoch."
    ),
    relevance=(
        "A small fine-tuning set is where it bites: 3 images with G = 4 trained nothing at all in AnimaLoraStudio, and "
        "a fixed order of the data leaves out the same examples each time. PET's training loop had it as well."
    ),
    limitations="Micro-batches count the same; where they do not, the tail's divisor is its units.",
    contract=(
        "Given G and the epochs of a run, each a list of micro-batch gradients, return the updates in order: in each "
        "epoch one for every G micro-batches and one for those left over, each the mean of its own micro-batches."
    ),
    domain=(
        "run: {'window': G, an integer of 1 or more; 'epochs': a list of epochs, each a list of lists of finite "
        "numbers, all of one length}."
    ),
    clauses=(
        Clause(
            "tail-steps",
            "algebraic",
            "What is left over at the end of an epoch makes a step of its own.",
            ("one left over", "fewer than a window", "window longer than the run"),
        ),
        Clause(
            "own-divisor",
            "algebraic",
            "That step is divided by the micro-batches that it holds.",
            ("one left over", "fewer than a window"),
        ),
        Clause(
            "epochs-apart",
            "algebraic",
            "No epoch's micro-batch is in another epoch's update.",
            ("two epochs", "tail in the first epoch only"),
        ),
        Clause(
            "no-tail",
            "boundary",
            "Where G divides the epoch, there are whole windows alone.",
            ("whole windows", "window of one"),
        ),
        Clause("nothing", "boundary", "An epoch without micro-batches makes no step.", ("no epoch", "empty epoch")),
    ),
    promised="",
    law=(
        "Each epoch has ceil(length / G) updates, the same as in a run of its own, and they add up, each times the "
        "micro-batches of its window, to all of the epoch's gradients."
    ),
    by_signs_alone=True,
    signs=signs({Sign.LONG_WINDOW}),
    separated_by="a window longer than the others, whose divisor is theirs",
    audit_sees="At an epoch's first step a window longer than the others, and the total weight its length over theirs.",
    repair=(
        "Step at the loader's end, too, and divide by the micro-batches that come: last = (i + 1) % G == 0 or i + 1 == "
        "len(loader); size = min(G, len(loader) - i // G * G); (loss / size).backward()"
    ),
    references=(
        "https://github.com/WalkingMeatAxolotl/AnimaLoraStudio/pull/305",
        "https://github.com/timoschick/pet/issues/36",
    ),
    related=("partial-window-full-divisor", "microbatch-dropped", "stale-gradient-leaks", "example-multiplicity"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws a window and epochs of one width."""
    width = source.randint(1, 3)
    lengths = [source.randint(0, 7) for _ in range(source.randint(1, 3))]
    epochs = [[[source.randint(-50, 50) for _ in range(width)] for _ in range(length)] for length in lengths]
    return {"window": source.randint(1, 4), "epochs": epochs}


def law(run, solve):
    """Solves each epoch alone, counts its updates, and adds them up, column by column."""
    size, joined = run["window"], []
    for epoch in run["epochs"]:
        updates = solve({"window": size, "epochs": [epoch]})
        joined += updates
        held = [min(size, len(epoch) - first) for first in range(0, len(epoch), size)]
        if len(held) != len(updates):
            return False
        for place, column in enumerate(zip(*epoch, strict=True)):
            total = sum(update[place] * count for update, count in zip(updates, held, strict=True))
            if abs(total - sum(column)) > 1e-9:
                return False
    return solve(run) == joined


def broken(run):
    updates, held = [], []
    for epoch in run["epochs"]:
        for index, gradient in enumerate(epoch):
            held.append(gradient)
            if (index + 1) % run["window"] == 0:
                updates.append([sum(column) / run["window"] for column in zip(*held, strict=True)])
                held = []
    return updates


def attempt(run):
    updates = []
    for epoch in run["epochs"]:
        held = []
        for index, gradient in enumerate(epoch):
            held.append(gradient)
            if (index + 1) % run["window"] == 0:
                updates.append([sum(column) / run["window"] for column in zip(*held, strict=True)])
                held = []
    return updates


def fixed(run):
    updates = []
    for epoch in run["epochs"]:
        held = []
        for index, gradient in enumerate(epoch):
            held.append(gradient)
            if (index + 1) % run["window"] == 0 or index + 1 == len(epoch):
                updates.append([sum(column) / len(held) for column in zip(*held, strict=True)])
                held = []
    return updates


def checks(N, solve, check):
    odd, even = [[N], [3 * N], [5 * N]], [[N], [3 * N]]
    check("one left over", solve({"window": 2, "epochs": [odd]}), [[2 * N], [5 * N]])
    check("fewer than a window", solve({"window": 4, "epochs": [even]}), [[2 * N]])
    check("window longer than the run", solve({"window": 9, "epochs": [[[N, -N]]]}), [[N, -N]])
    check("two epochs", solve({"window": 2, "epochs": [odd, odd]}), [[2 * N], [5 * N], [2 * N], [5 * N]])
    check("tail in the first epoch only", solve({"window": 2, "epochs": [odd, even]}), [[2 * N], [5 * N], [2 * N]])
    check("whole windows", solve({"window": 2, "epochs": [even, even]}), [[2 * N], [2 * N]])
    check("window of one", solve({"window": 1, "epochs": [odd]}), odd)
    check("no epoch", solve({"window": N, "epochs": []}), [])
    check("empty epoch", solve({"window": N, "epochs": [[]]}), [])


def edges(source):
    """Draws windows far longer than an epoch, and many epochs, empty ones among them."""
    gradients = [[source.randint(-50, 50)] for _ in range(20)]
    epochs = [gradients[:3], [], gradients[3:4], gradients[4:]]
    runs = [{"window": window, "epochs": epochs} for window in (5, 8, 16, 17, 10**6, 2**40)]
    return [*runs, {"window": 3, "epochs": [gradients[:count] for count in range(12)]}]
