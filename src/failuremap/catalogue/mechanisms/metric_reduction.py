"""The reported loss is reduced by another rule than the gradient: one rank's mean where sum/N is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=39,
    slug="metric-reduction",
    title="The reported loss is reduced by another rule than the gradient",
    group="terms",
    abstract="Training is right and the curve is not: what is printed, plotted or compared is another quantity.",
    root_cause=(
        "The loss that goes backward is reduced by DDP or by counts, and the one for the log takes a path of its own: "
        "one rank's value, a mean of means, a sum over ranks that hold the same loss."
    ),
    failure=(
        "With a loss of 2 over one unit on rank 0 and 18 over three on rank 1, rank 0 prints 2, where 20/4 = 5 is the "
        "loss that is trained on."
    ),
    failed_approach=(
        "Averaging the ranks' means brings in all ranks and forgets their counts: 4 in the same case, right for "
        "equal counts alone."
    ),
    relevance=(
        "Decisions are made by it: early stopping, the checkpoint that is kept, a regression that is looked for in the "
        "gradients and is not there. A Keras train_step printed one replica's loss, the evaluation loss of "
        "transformers was too large by the context-parallel size, and torchtitan's with torchft jumped when replicas "
        "joined or left."
    ),
    limitations="One scalar is reduced; a gradient norm, whose squares add up over shards, needs another rule.",
    contract=(
        "Given one [loss_sum, count] row for each rank, return the loss that the update is the gradient of: the sum of "
        "the losses over the sum of the counts, as a list of one number; [] without any unit."
    ),
    domain="rows: a list of (loss, count) pairs; loss an integer, 0 where count is 0; count an integer of 0 or more.",
    clauses=(
        Clause("all-ranks", "algebraic", "Each rank's loss is in it.", ("equal counts", "rank without units")),
        Clause("weighs-by-count", "algebraic", "Each unit weighs the same.", ("unequal counts", "one long rank")),
        Clause("same-mean", "algebraic", "Where all ranks have one mean, it is that mean.", ("same mean everywhere",)),
        Clause("single", "boundary", "One rank's loss is divided by its count.", ("one rank",)),
        Clause("zero-total", "boundary", "Without any unit there is no loss: [].", ("no unit", "no rank")),
    ),
    attempt_follows="mean",
    separated_by="the printed loss beside that of one process on the same batch",
    symptoms=(
        "The logged loss is that of one rank, or too small by the number of GPUs; training itself is right.",
        "The reported gradient norm differs between ranks.",
        "The tracker (wandb) only shows the loss of rank 0.",
    ),
    audit_sees="Nothing wrong: the gradients that the optimizer steps on are those of the right loss.",
    audit_blind="The audit judges what the optimizer steps on, and this is right; it does not read what is printed.",
    repair=(
        "Reduce numerator and denominator, and divide once: totals = torch.stack([loss_sum.detach(), token_count]); "
        "dist.all_reduce(totals); shown = totals[0] / totals[1]. The group is that of the ranks with distinct units; "
        "ranks that hold the same ones (tensor parallel) are left out of it."
    ),
    references=(
        "https://github.com/huggingface/transformers/pull/48167",
        "https://github.com/keras-team/keras/issues/15509",
        "https://github.com/pytorch/torchtitan/pull/4663",
        "https://github.com/NVIDIA-NeMo/RL/pull/1426",
        "https://github.com/ORNL/HydraGNN/pull/116",
    ),
    related=("late-division", "replica-means-ignore-counts", "norm-misses-shards"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(rows):
    """Takes each rank's mean loss as a vector of one number."""
    from fractions import Fraction

    return [[Fraction(loss, max(count, 1))] for loss, count in rows], Layout.from_counts([count for _, count in rows])


def sample(source):
    """Draws ranks with a count of 1 or more."""
    return [(source.randint(0, 99), source.randint(1, 9)) for _ in range(source.randint(1, 5))]


def broken(rows):
    if not rows:
        return []
    loss, count = rows[0]
    return [loss / max(count, 1)]


def attempt(rows):
    from fractions import Fraction

    means = [Fraction(loss, max(count, 1)) for loss, count in rows]
    return [float(sum(means) / len(means))] if means else []


def fixed(rows):
    total = sum(count for _, count in rows)
    return [sum(loss for loss, _ in rows) / total] if total else []


def checks(N, solve, check):
    check("equal counts", solve([(4 * N, 2), (12 * N, 2)]), [4 * N])
    check("rank without units", solve([(0, 0), (6 * N, 2)]), [3 * N])
    check("unequal counts", solve([(2 * N, 1), (18 * N, 3)]), [5 * N])
    check("one long rank", solve([(N, 1), (N, 1), (14 * N, 6)]), [2 * N])
    check("same mean everywhere", solve([(2 * N, 1), (6 * N, 3)]), [2 * N])
    check("one rank", solve([(10 * N, 4)]), [2.5 * N])
    check("no unit", solve([(0, 0)] * N), [])
    check("no rank", solve([]), [])


def edges(source):
    """Draws losses below 0, and losses and counts of billions."""
    below = [(-source.randint(1, 99), source.randint(1, 9)) for _ in range(4)]
    above = [(source.randint(1, 99) * 10**9, 1), (-7, 3), (0, 0), (10**15 + source.randint(0, 9), 10**5)]
    return [below, above, above[::-1], [(10**9, 1)], [(0, 3)], [(5, 2), (-5, 1)], [(source.randint(1, 99), 10**12)]]
