"""Right repairs of the updates of epochs with a tail."""


def slices(run):
    size = run["window"]
    windows = [epoch[at : at + size] for epoch in run["epochs"] for at in range(0, len(epoch), size)]
    return [[sum(column) / len(window) for column in zip(*window)] for window in windows]


def divided_first(run):
    size = run["window"]
    windows = [epoch[at : at + size] for epoch in run["epochs"] for at in range(0, len(epoch), size)]
    return [[sum(value / len(window) for value in column) for column in zip(*window)] for window in windows]


def running_means(run):
    updates = []
    for epoch in run["epochs"]:
        for index, gradient in enumerate(epoch):
            place = index % run["window"]
            if place == 0:
                updates.append([float(value) for value in gradient])
            else:
                updates[-1] = [m + (g - m) / (place + 1) for m, g in zip(updates[-1], gradient)]
    return updates
