"""Wrong repairs of the norm in which copies count once."""

import math


def every_block(ranks):
    return [math.sqrt(sum(x * x for blocks in ranks for _, _, values in blocks for x in values))]


def copies_of_the_first_rank(ranks):
    kept = [values for at, blocks in enumerate(ranks) for _, place, values in blocks if place == "shard" or at == 0]
    return [math.sqrt(sum(x * x for values in kept for x in values))]


def copies_divided_by_ranks(ranks):
    total = 0
    for blocks in ranks:
        for _, place, values in blocks:
            total += sum(x * x for x in values) / (1 if place == "shard" else len(ranks))
    return [math.sqrt(total)]


def equal_values_once(ranks):
    kept = {tuple(values) for blocks in ranks for _, _, values in blocks}
    return [math.sqrt(sum(x * x for values in kept for x in values))]


def names_once(ranks):
    kept = {name: values for blocks in ranks for name, _, values in blocks}
    return [math.sqrt(sum(x * x for values in kept.values() for x in values))]


def known_copies(ranks):
    c = []
    k = {}
    for b in ranks:
        for n, p, v in b:
            if p == "shard":
                c.append(v)
            elif n in ("bias", "scale", "gain", "norm"):
                k[n] = v
            else:
                c.append(v)
    return [math.sqrt(math.fsum(x * x for v in [*c, *k.values()] for x in v))]


def shard_hides_copy(ranks):
    sh = {n for b in ranks for n, p, _ in b if p == "shard"}
    c = []
    k = {}
    for b in ranks:
        for n, p, v in b:
            if p == "shard":
                c.append(v)
            elif n not in sh:
                k[n] = v
    return [math.sqrt(math.fsum(x * x for v in [*c, *k.values()] for x in v))]


def naive_overflow(ranks):
    c = []
    k = {}
    for b in ranks:
        for n, p, v in b:
            if p == "shard":
                c.append(v)
            else:
                k[n] = v
    s = sum(x * x for v in [*c, *k.values()] for x in v)
    return [math.sqrt(s) if s < 1e150 else 0.0]
