"""Wrong repairs of a division by a total that may be zero."""


def at_least_one(rows):
    total = max(sum(w for _, w in rows), 1)
    return [sum(column) / total for column in zip(*(g for g, _ in rows))] if any(w for _, w in rows) else []


def with_an_epsilon(rows):
    total = sum(w for _, w in rows)
    return [sum(column) / (total + 1e-9) for column in zip(*(g for g, _ in rows))] if total else []


def zeros(rows):
    total = sum(w for _, w in rows)
    return [sum(column) / total if total else 0.0 for column in zip(*(g for g, _ in rows))]


def whole_weights(rows):
    total = sum(int(w) for _, w in rows)
    return [sum(column) / total for column in zip(*(g for g, _ in rows))] if total else []


def tiny_total_is_zero(rows):
    total = sum(w for _, w in rows)
    return [sum(column) / total for column in zip(*(g for g, _ in rows))] if total > 1e-6 else []


def small_total_is_none(rows):
    t = sum((w for _, w in rows))
    if t < 1e-13:
        return []
    return [sum(c) / t for c in zip(*(g for g, _ in rows))]


def tiny_total_is_none(rows):
    t = sum((w for _, w in rows))
    if t < 1e-30:
        return []
    return [sum(c) / t for c in zip(*(g for g, _ in rows))]


def weights_up_to_a_billion(rows):
    t = min(sum((w for _, w in rows)), 1000000000.0)
    if not t:
        return []
    return [sum(c) / t for c in zip(*(g for g, _ in rows))]
