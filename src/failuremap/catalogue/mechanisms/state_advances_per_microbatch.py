"""Optimizer state advances on every micro-batch: M steps of decay and count where one is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism

MECHANISM = Mechanism(
    number=40,
    slug="state-advances-per-microbatch",
    title="Optimizer state advances on every micro-batch",
    group="terms",
    abstract="The gradient waits for the window, and weight decay, step counter or learning rate do not.",
    root_cause=(
        "What belongs to a step hangs on the call that a micro-batch makes: an optimizer that accumulates inside "
        "itself, a scheduler or a weight average that is advanced in the inner loop."
    ),
    failure=(
        "A weight of 16 with a decay of 1/4 becomes 9 over a window of two micro-batches whose gradients cancel, "
        "where 12 is right, and the counter that the warm-up reads shows two steps."
    ),
    failed_approach=(
        "Dividing the decay by the number of micro-batches comes close and is no single decay: 16 * (7/8)^2 = 12.25."
    ),
    relevance=(
        "Accumulation stops standing in for a larger batch: the warm-up ends after a fraction of its steps, Adam's "
        "bias correction uses a time that runs ahead, and the decay depends on how many examples fit into memory at "
        "once. Reported of Keras 3, whose optimizers accumulate inside themselves. In PyTorch the state of torch.optim "
        "moves in step() alone, and what is stepped beside it can go wrong."
    ),
    limitations=(
        "Momentum and gradient are kept right here; an optimizer that steps on each micro-batch goes wrong with those "
        "as well, as Horovod's Adasum of deltas did."
    ),
    contract=(
        "Given [[weights, momentum, step_count], gradient_means] of a window, return weights, momentum and step count "
        "after one step on the mean of the gradients: momentum/2 + gradient, then weights - weights/4 - momentum, in "
        "one flat list; a window without a micro-batch changes nothing."
    ),
    domain=(
        "window: a pair of a state and a list of gradients; weights, momentum and gradients lists of integers, all of "
        "one length; step_count an integer of 0 or more."
    ),
    clauses=(
        Clause(
            "one-decay",
            "algebraic",
            "Weights decay once a window, however many micro-batches it has.",
            ("two micro-batches", "gradients that cancel", "four micro-batches"),
        ),
        Clause("one-count", "algebraic", "The counter rises by one a window.", ("weights of zero",)),
        Clause("window-of-one", "boundary", "One micro-batch is one step.", ("one micro-batch",)),
        Clause("no-micro-batch", "boundary", "Without a micro-batch the state stays.", ("no micro-batch",)),
        Clause("state-is-not-shared", "purity", "The state that was given stays as it was.", ("asked twice",)),
    ),
    promised="",
    law=(
        "A window gives the state that its mean gradient gives alone, and one more step in the counter; the change "
        "of the weights does not depend on how the window was cut."
    ),
    separated_by="a window of one micro-batch beside one of several with the same mean gradient",
    symptoms=("Weight decay, momentum or Adam moments advance at every micro-batch.",),
    audit_sees="A right gradient at each step: counter, decay and learning rate are beside it.",
    audit_blind=(
        "The audit reads the gradient that the optimizer steps on, and neither the optimizer's own state nor its "
        "learning rate."
    ),
    repair=(
        "Advance all of it in the branch that steps: if last: optimizer.step(); scheduler.step(); "
        "averaged_model.update_parameters(model); optimizer.zero_grad(). Count warm-up in optimizer steps, not in "
        "batches."
    ),
    references=(
        "https://github.com/keras-team/keras/issues/19990",
        "https://github.com/horovod/horovod/issues/1676",
    ),
    related=("tail-window-dropped", "clip-in-wrong-place", "rank-local-step-decision"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws a state and a window of one micro-batch or more."""
    width = source.randint(1, 3)
    vectors = [[source.randint(-50, 50) for _ in range(width)] for _ in range(2 + source.randint(1, 4))]
    return (vectors[0], vectors[1], source.randint(0, 9)), vectors[2:]


def law(window, solve):
    """Cuts the window in other ways, in exact fractions: the mean gradient alone, and every micro-batch twice."""
    from fractions import Fraction

    (weights, momentum, count), gradients = window
    state = ([Fraction(w) for w in weights], [Fraction(m) for m in momentum], count)
    exact = [[Fraction(value) for value in gradient] for gradient in gradients]
    means = [sum(column) / len(exact) for column in zip(*exact, strict=True)]
    result = solve((state, exact))
    return result[-1] == count + 1 and result == solve((state, [means])) == solve((state, exact + exact))


def broken(window):
    (weights, momentum, count), gradients = window
    for _ in gradients:
        weights = [w - w / 4 for w in weights]
        count += 1
    if gradients:
        means = [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]
        momentum = [m / 2 + g for m, g in zip(momentum, means, strict=True)]
        weights = [w - m for w, m in zip(weights, momentum, strict=True)]
    return [*weights, *momentum, count]


def attempt(window):
    (weights, momentum, count), gradients = window
    for _ in gradients:
        weights = [w - w / (4 * len(gradients)) for w in weights]
    if gradients:
        means = [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]
        momentum = [m / 2 + g for m, g in zip(momentum, means, strict=True)]
        weights = [w - m for w, m in zip(weights, momentum, strict=True)]
        count += 1
    return [*weights, *momentum, count]


def fixed(window):
    (weights, momentum, count), gradients = window
    if gradients:
        means = [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]
        momentum = [m / 2 + g for m, g in zip(momentum, means, strict=True)]
        weights = [w - w / 4 - m for w, m in zip(weights, momentum, strict=True)]
        count += 1
    return [*weights, *momentum, count]


def checks(N, solve, check):
    check("two micro-batches", solve((([8 * N], [0], 5), [[2 * N], [4 * N]])), [3 * N, 3 * N, 6])
    check("gradients that cancel", solve((([16 * N], [0], 0), [[N], [-N]])), [12 * N, 0, 1])
    check("four micro-batches", solve((([4, 8 * N], [2, 0], N), [[1, N]] * 4)), [1, 5 * N, 2, N, N + 1])
    check("weights of zero", solve((([0], [2 * N], N), [[N], [3 * N]])), [-3 * N, 3 * N, N + 1])
    check("one micro-batch", solve((([8 * N], [2 * N], 3), [[N]])), [4 * N, 2 * N, 4])
    check("no micro-batch", solve((([N], [N], N), [])), [N, N, N])
    window = (([8 * N], [0], 1), [[N]])
    check("asked twice", [solve(window), solve(window)], [[5 * N, N, 2], [5 * N, N, 2]])


def edges(source):
    """Draws a step late in a run, of odd numbers, one that no micro-batch moves, and a gradient twice."""
    weights, momentum, *gradients = ([source.randint(-50, 50) * 202 + 1 for _ in range(2)] for _ in range(7))
    steps = 99, 1000, 65_535, 10**6, 2**24 + 1, 2**31 - 1, 2**32 - 1, 2**40
    late = [((weights, momentum, count), gradients[: 1 + place % 5]) for place, count in enumerate(steps)]
    twice = [((weights, momentum, 3), gradients[:count] + gradients[:1]) for count in (2, 4, 6)]
    return [*late, *twice, ((weights, momentum, 2**31 - 1), [])]
