"""Right repairs of one step on the mean of a window."""


def as_the_contract_says(window):
    (weights, momentum, count), gradients = window
    if not gradients:
        return [*weights, *momentum, count]
    means = [sum(column) / len(gradients) for column in zip(*gradients)]
    moved = [0.5 * m + g for m, g in zip(momentum, means)]
    return [*(0.75 * w - m for w, m in zip(weights, moved)), *moved, count + 1]


def added_up_first(window):
    (weights, momentum, count), gradients = window
    total = [sum(g / len(gradients) for g in column) for column in zip(*gradients)] or [0] * len(weights)
    if gradients:
        momentum = [m / 2 + g for m, g in zip(momentum, total)]
        weights = [w - (w / 4 + m) for w, m in zip(weights, momentum)]
    return list(weights) + list(momentum) + [count + bool(gradients)]
