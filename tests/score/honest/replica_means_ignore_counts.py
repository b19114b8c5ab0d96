"""Right repairs of the weighted mean, as different people would write them."""


def products_then_division(rows):
    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    return [sum(g * n for g, n in zip(column, [n for _, n in rows])) / total for column in zip(*(g for g, _ in rows))]


def correctly_rounded_sum(rows):
    import math

    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    return [math.fsum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def running_mean(rows):
    mean, seen = [], 0
    for gradient, count in rows:
        if count:
            seen += count
            mean = [m + (g - m) * (count / seen) for m, g in zip(mean or gradient, gradient)]
    return mean


def weights_first(rows):
    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    return [sum(n / total * g[j] for g, n in rows) for j in range(len(rows[0][0]))] if rows else []


def reversed_order(rows):
    rows = [row for row in rows if row[1]][::-1]
    total = sum(count for _, count in rows)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def exact_fractions(rows):
    from fractions import Fraction

    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    return [sum(Fraction(g[j]) * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def exact_fractions_to_floats(rows):
    from fractions import Fraction

    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    return [float(sum(Fraction(g[j]) * n for g, n in rows) / total) for j in range(len(rows[0][0]))] if rows else []


def floats_throughout(rows):
    rows = [([float(x) for x in g], float(n)) for g, n in rows if n]
    total = sum(n for _, n in rows)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def from_small_to_large(rows):
    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    return [sum(sorted((g[j] * n for g, n in rows), key=abs)) / total for j in range(len(rows[0][0]))] if rows else []


def by_halves(rows):
    def added(parts):
        if len(parts) == 1:
            return [g * parts[0][1] for g in parts[0][0]]
        middle = len(parts) // 2
        return [a + b for a, b in zip(added(parts[:middle]), added(parts[middle:]))]

    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    return [value / total for value in added(rows)] if rows else []


def compensated(rows):
    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    result = []
    for j in range(len(rows[0][0]) if rows else 0):
        held = rest = 0.0
        for g, n in rows:
            corrected = g[j] * n - rest
            after = held + corrected
            rest, held = (after - held) - corrected, after
        result.append(held / total)
    return result


def differences_from_the_first(rows):
    rows = [row for row in rows if row[1]]
    total = sum(count for _, count in rows)
    if not rows:
        return []
    first = rows[0][0]
    return [f + sum((g[j] - f) * n for g, n in rows) / total for j, f in enumerate(first)]


def one_pass_over_a_copy(rows):
    import copy

    sums, units = {}, 0
    for gradient, count in copy.deepcopy(rows):
        if count == 0:
            continue
        units += count
        for j, value in enumerate(gradient):
            sums[j] = sums.get(j, 0) + value * count
    return [sums[j] / units for j in sorted(sums)]
