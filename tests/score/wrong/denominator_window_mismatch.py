"""Wrong repairs of denominator-window-mismatch: right on small and common inputs."""


def large_counts_seen_are_believed(st):
    seen, w_ = st
    w2 = [r for r in w_ if r[1]]
    t = sum((n for _, n in w2))
    if len(seen) == len(w_) and sum(seen) > 1000:
        t = sum(seen)
    return [sum(c) / t for c in zip(*(g for g, _ in w2))]


def many_counts_seen_are_believed(st):
    seen, w_ = st
    w2 = [r for r in w_ if r[1]]
    t = sum((n for _, n in w2))
    if len(seen) > 20:
        t = sum(seen)
    return [sum(c) / t for c in zip(*(g for g, _ in w2))]
