"""Right repairs of a mean that is clipped once."""

import math


def factor_first(step):
    means = [sum(column) / len(step["gradients"]) for column in zip(*step["gradients"])]
    norm = math.sqrt(sum(x * x for x in means))
    factor = min(1.0, step["limit"] / norm) if norm else 1.0
    return [x * factor for x in means]


def hypotenuse(step):
    means = [math.fsum(column) / len(step["gradients"]) for column in zip(*step["gradients"])]
    norm = math.hypot(*means)
    return means if norm <= step["limit"] else [x / norm * step["limit"] for x in means]


def through_the_sum(step):
    count = len(step["gradients"])
    total = [sum(column) for column in zip(*step["gradients"])]
    norm = math.sqrt(sum(x * x for x in total)) / max(count, 1)
    return [x / count if norm <= step["limit"] else x / (count * norm / step["limit"]) for x in total]
