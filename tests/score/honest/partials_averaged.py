"""Right repairs of the sum of parts."""


def plain(parts):
    return [sum(column) for column in zip(*parts)]


def from_the_last(parts):
    total = []
    for part in reversed(parts):
        total = [a + b for a, b in zip(total, part)] if total else list(part)
    return total


def correctly_rounded(parts):
    import math

    return [math.fsum(column) for column in zip(*parts)]


def exact_fractions(parts):
    from fractions import Fraction

    return [sum(map(Fraction, column)) for column in zip(*parts)]


def by_size(parts):
    return [sum(sorted(column, key=abs)) for column in zip(*parts)]
