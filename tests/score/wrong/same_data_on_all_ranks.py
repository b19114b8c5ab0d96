"""Wrong repairs of same-data-on-all-ranks: right on small and common inputs."""


def batches_of_twenty(loading):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    r, s, g = loading
    return mean(g[: r * min(s, 20)])


def product_in_16_bits(loading):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    r, s, g = loading
    return mean(g[: r * s & 65535 or 1])


def product_in_32_bits(loading):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    r, s, g = loading
    return mean(g[: r * s & 4294967295 or 1])
