"""Right repairs of the norm in which copies count once."""

import math


def copies_left_out_when_seen(ranks):
    total, seen = 0.0, []
    for blocks in ranks:
        for name, placement, values in blocks:
            if placement == "copy" and name in seen:
                continue
            seen += [name] if placement == "copy" else []
            total += sum(x * x for x in values)
    return [total**0.5]


def hypotenuse(ranks):
    shards = [x for blocks in ranks for _, placement, values in blocks if placement == "shard" for x in values]
    copies = {name: values for blocks in ranks for name, placement, values in blocks if placement == "copy"}
    return [math.hypot(*shards, *(x for values in copies.values() for x in values))]
