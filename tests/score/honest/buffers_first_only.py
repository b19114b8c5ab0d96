"""Right repairs of statistics that are averaged by count."""


def running(rows):
    mean, seen, most = None, 0, 0
    for row in rows:
        if row["count"]:
            seen += row["count"]
            share = row["count"] / seen
            mean = [m + (x - m) * share for m, x in zip(mean, row["mean"])] if mean is not None else list(row["mean"])
            most = max(most, row["batches"])
    return [] if mean is None else [*mean, most]


def weights_first(rows):
    seen = [row for row in rows if row["count"]]
    if not seen:
        return []
    shares = [row["count"] / sum(row["count"] for row in seen) for row in seen]
    means = [sum(s * x for s, x in zip(shares, column)) for column in zip(*(row["mean"] for row in seen))]
    return [*means, max(row["batches"] for row in seen)]
