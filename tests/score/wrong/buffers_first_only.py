"""Wrong repairs of buffers-first-only: right on small and common inputs."""


def counter_in_31_bits(rows):

    def wm(rows):
        rows = [r for r in rows if r[1]]
        t = sum((n for _, n in rows))
        return [sum(c) / t for c in zip(*([x * n for x in g] for g, n in rows))]

    s = [r for r in rows if r["count"]]
    if not s:
        return []
    return [*wm([(r["mean"], r["count"]) for r in s]), min(max(r["batches"] for r in s), 2**31 - 1)]


def counter_of_one_at_least(rows):

    def wm(rows):
        rows = [r for r in rows if r[1]]
        t = sum((n for _, n in rows))
        return [sum(c) / t for c in zip(*([x * n for x in g] for g, n in rows))]

    s = [r for r in rows if r["count"]]
    if not s:
        return []
    return [*wm([(r["mean"], r["count"]) for r in s]), max([1] + [r["batches"] for r in s])]
