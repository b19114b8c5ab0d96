"""Wrong repairs of the mean over the units of a window, from rows of (sum, count)."""


def last_row(window):
    return [value / window[-1][1] for value in window[-1][0]] if window and window[-1][1] else []


def mean_of_means(window):
    rows = [[value / count for value in gradient] for gradient, count in window if count]
    return [sum(column) / len(rows) for column in zip(*rows)]


def divided_by_rows(window):
    return [sum(column) / len(window) for column in zip(*(g for g, _ in window))] if any(n for _, n in window) else []


def empty_where_the_first_is_idle(window):
    if not window or not window[0][1]:
        return []
    return [sum(column) / sum(n for _, n in window) for column in zip(*(g for g, _ in window))]


def adds_into_the_first_gradient(window):
    units = sum(count for _, count in window)
    if not units:
        return []
    buffer = window[0][0]
    for gradient, _ in window[1:]:
        for j, value in enumerate(gradient):
            buffer[j] += value
    return [value / units for value in buffer]


def at_least_one_unit(window):
    units = max(sum(count for _, count in window), 1)
    return [sum(column) / units for column in zip(*(g for g, _ in window))]
