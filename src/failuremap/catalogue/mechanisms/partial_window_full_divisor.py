"""The last short window is divided by the full window size: 1/G where 1/M is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=34,
    slug="partial-window-full-divisor",
    title="The last short window is divided by the full window size",
    group="window-divisor",
    abstract="At the end of an epoch fewer micro-batches are left, and their update is too small.",
    root_cause="The divisor is the configured accumulation, not the number of micro-batches that came.",
    failure=(
        "With an accumulation of 4, the one micro-batch that a loader of 9 leaves over, with gradient 8, gives an "
        "update of 2: a quarter of its weight."
    ),
    failed_approach=(
        "Skipping the step of a short window spares it the wrong divisor and drops its examples instead, the same "
        "ones in each epoch where the loader does not shuffle."
    ),
    relevance=(
        "One step an epoch is too small, by a factor of up to the accumulation: much where epochs are short, as in "
        "fine-tuning, and hard to see in a loss curve. Reported of Lightning, and of loops that divide the loss by "
        "accumulation_steps beforehand (minimind)."
    ),
    limitations="Micro-batches hold equally many units here; where they do not, counts must weigh them as well.",
    contract=(
        "Given [accumulation_steps, gradient_means], the means of the micro-batches that came, all over equally many "
        "units, return the mean over those that came; [] where none did."
    ),
    domain=(
        "window: a pair of an integer of 1 or more, and a list of at most that many gradients; gradient a list of "
        "integers, all of one length."
    ),
    clauses=(
        Clause(
            "divides-by-present",
            "algebraic",
            "A short window is divided by the number of its own micro-batches.",
            ("one of four", "two of eight", "all but one"),
        ),
        Clause("full-window", "algebraic", "A full window is divided by its size.", ("full window",)),
        Clause("accumulation-of-one", "boundary", "Without accumulation nothing is divided.", ("no accumulation",)),
        Clause("no-micro-batch", "boundary", "Without a micro-batch there is no update: [].", ("none came",)),
        Clause(
            "setting-is-no-divisor",
            "numeric",
            "A setting far larger than what came does not shrink it.",
            ("large setting",),
        ),
    ),
    followed=("mean_over_full_window", "weighted_mean_over_full_window"),
    signs=signs({Sign.SHORT_WINDOW}),
    separated_by="a window shorter than the others",
    audit_sees=(
        "Full windows that are right, and a short one whose total weight is its length over that of a full one."
    ),
    repair=(
        "Divide by the micro-batches that come: size = min(accumulation_steps, len(loader) - first), first = index "
        "of the window's first batch; (loss / size).backward(). Where counts differ, divide summed losses by the "
        "count of the window instead (see mean-of-microbatch-means)."
    ),
    references=(
        "https://github.com/Lightning-AI/pytorch-lightning/issues/19987",
        "https://github.com/jingyaogong/minimind/issues/749",
        "https://github.com/huggingface/accelerate/issues/1847",
    ),
    related=(
        "tail-window-dropped",
        "divisor-counts-idle-parts",
        "mean-of-microbatch-means",
        "denominator-window-mismatch",
    ),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(window):
    """Takes each gradient as a micro-batch of one unit, in a window that would hold more."""
    size, gradients = window
    return gradients, Layout.grid({(0, m): 1 for m in range(len(gradients))}, full_window=size)


def sample(source):
    """Draws a window with at least one micro-batch, full or not."""
    width, size = source.randint(1, 3), source.randint(1, 6)
    return size, [[source.randint(-50, 50) for _ in range(width)] for _ in range(1 + source.randrange(size))]


def broken(window):
    size, gradients = window
    return [sum(column) / size for column in zip(*gradients, strict=True)]


def attempt(window):
    size, gradients = window
    if len(gradients) < size:
        return []
    return [sum(column) / size for column in zip(*gradients, strict=True)]


def fixed(window):
    _, gradients = window
    return [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    check("one of four", solve((4, [[8 * N]])), [8 * N])
    check("two of eight", solve((8, [[N, 4], [3 * N, 0]])), [2 * N, 2])
    check("all but one", solve((N + 2, [[N]] * (N + 1))), [N])
    check("full window", solve((2, [[N], [5 * N]])), [3 * N])
    check("no accumulation", solve((1, [[7 * N, -N]])), [7 * N, -N])
    check("none came", solve((N + 1, [])), [])
    check("large setting", solve((2**40, [[N], [N]])), [N])


def edges(source):
    """Draws windows far shorter than the setting, and full ones in which gradients come twice."""
    gradients = [[source.randint(-50, 50) for _ in range(2)] for _ in range(5)]
    several = [(10, gradients * 2), (13, gradients * 2 + gradients[:3])]
    return [
        *several,
        (10**12, gradients),
        (2**60, gradients[:1]),
        (6, gradients),
        (5, gradients),
        (9, gradients + gradients[:2]),
    ]
