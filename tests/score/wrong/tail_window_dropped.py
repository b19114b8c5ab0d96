"""Wrong repairs of the updates of epochs with a tail."""


def tail_dropped(run):
    size = run["window"]
    windows = [epoch[at : at + size] for epoch in run["epochs"] for at in range(0, len(epoch), size)]
    return [[sum(c) / size for c in zip(*window)] for window in windows if len(window) == size]


def full_divisor(run):
    size = run["window"]
    windows = [epoch[at : at + size] for epoch in run["epochs"] for at in range(0, len(epoch), size)]
    return [[sum(c) / size for c in zip(*window)] for window in windows]


def carried_over(run):
    size = run["window"]
    gradients = [gradient for epoch in run["epochs"] for gradient in epoch]
    windows = [gradients[at : at + size] for at in range(0, len(gradients), size)]
    return [[sum(c) / len(window) for c in zip(*window)] for window in windows]


def one_update_for_an_empty_epoch(run):
    size = run["window"]
    windows = [epoch[at : at + size] for epoch in run["epochs"] for at in range(0, len(epoch) or 1, size)]
    return [[sum(c) / len(window) for c in zip(*window)] for window in windows]
