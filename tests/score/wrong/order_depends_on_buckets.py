"""Wrong repairs of the correctly rounded sum."""

import math


def plain_sum(bucket):
    return [sum(column) for column in zip(*bucket["parts"])]


def by_size(bucket):
    return [sum(sorted(column, key=abs)) for column in zip(*bucket["parts"])]


def compensated(bucket):
    def kahan(values):
        total = rest = 0.0
        for value in values:
            corrected = value - rest
            after = total + corrected
            rest, total = (after - total) - corrected, after
        return total

    return [kahan(column) for column in zip(*bucket["parts"])]


def unrounded(bucket):
    from fractions import Fraction

    return [sum(map(Fraction, column)) for column in zip(*bucket["parts"])]


def twice_rounded(bucket):
    from fractions import Fraction

    return [float(sum(map(Fraction, column[:-1]))) + column[-1] for column in zip(*bucket["parts"])]


def nothing_where_all_cancel(bucket):
    sums = [math.fsum(column) for column in zip(*bucket["parts"])]
    return sums if any(sums) else []
