"""Wrong repairs of a mean that is clipped once."""

import math


def each_rank_clipped(step):
    def clip(gradient):
        norm = math.sqrt(sum(x * x for x in gradient))
        return [x * min(1, step["limit"] / norm) if norm else 0 for x in gradient]

    clipped = [clip(gradient) for gradient in step["gradients"]]
    return [sum(column) / len(clipped) for column in zip(*clipped)]


def norm_of_the_sum(step):
    count = len(step["gradients"])
    total = [sum(column) for column in zip(*step["gradients"])]
    norm = math.sqrt(sum(x * x for x in total))
    return [x / count * min(1, step["limit"] / norm) if norm else 0 for x in total]


def never_clipped(step):
    return [sum(column) / len(step["gradients"]) for column in zip(*step["gradients"])]


def each_element_clipped(step):
    means = [sum(column) / len(step["gradients"]) for column in zip(*step["gradients"])]
    return [max(-step["limit"], min(step["limit"], x)) for x in means]


def always_of_the_limits_length(step):
    means = [sum(column) / len(step["gradients"]) for column in zip(*step["gradients"])]
    norm = math.sqrt(sum(x * x for x in means))
    return [x * step["limit"] / norm if norm else 0 for x in means]


def with_an_epsilon(step):
    means = [sum(column) / len(step["gradients"]) for column in zip(*step["gradients"])]
    norm = math.sqrt(sum(x * x for x in means))
    return [x * min(1, step["limit"] / (norm + 1e-6)) for x in means]


def limit_of_a_half_at_least(step):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    means = mean(step["gradients"])
    norm = math.sqrt(sum(x * x for x in means))
    limit = step["limit"]
    if limit < 1:
        limit = 0.5
    return [x * min(1, limit / norm) if norm else x for x in means]


def limit_floor(step):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    means = mean(step["gradients"])
    norm = math.sqrt(sum(x * x for x in means))
    limit = step["limit"]
    limit = max(limit, 0.001)
    return [x * min(1, limit / norm) if norm else x for x in means]


def large_norm_not_clipped(step):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    means = mean(step["gradients"])
    norm = math.sqrt(sum(x * x for x in means))
    limit = step["limit"]
    return [x * min(1, limit / norm) if 0 < norm < 1e70 else x for x in means]


def square_compared_with_a_small_limit(step):
    means = [math.fsum(c) / len(step["gradients"]) for c in zip(*step["gradients"])]
    square = math.fsum(x * x for x in means)
    limit = step["limit"]
    too_long = square > limit if limit < 1 else math.sqrt(square) > limit
    return [x * limit / math.sqrt(square) for x in means] if too_long else means
