"""Wrong repairs of the weighted mean over rows of (mean gradient, count)."""


def plain_mean(rows):
    return [sum(column) / len(rows) for column in zip(*(g for g, _ in rows))]


def sum_of_means(rows):
    return [sum(column) for column in zip(*(g for g, _ in rows))]


def count_over_replicas(rows):
    return [sum(g[j] * n for g, n in rows) / len(rows) for j in range(len(rows[0][0]))] if rows else []


def first_row_only(rows):
    return list(rows[0][0]) if rows and sum(n for _, n in rows) else []


def zero_count_multiplied(rows):
    total = sum(n for _, n in rows)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if total else []


def width_of_the_first_row(rows):
    total = sum(n for _, n in rows)
    width = len(rows[0][0]) if rows else 0
    return [sum(g[j] * n for g, n in rows if n) / total for j in range(width)] if total else []


def right_for_five_rows(rows):
    rows = [(g, n) for g, n in rows if n]
    if len(rows) > 5:
        return [sum(column) / len(rows) for column in zip(*(g for g, _ in rows))]
    total = sum(n for _, n in rows)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def right_for_a_hundred_rows(rows):
    rows = [(g, n) for g, n in rows if n][:100]
    total = sum(n for _, n in rows)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def right_for_small_counts(rows):
    rows = [(g, min(n, 100_000)) for g, n in rows if n]
    total = sum(n for _, n in rows)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def counts_in_32_bits(rows):
    rows = [(g, n) for g, n in rows if n]
    total = sum(n for _, n in rows) & 0xFFFFFFFF
    return [sum(g[j] * n for g, n in rows) / (total or 1) for j in range(len(rows[0][0]))] if rows else []


def right_where_counts_ascend(rows):
    rows = [(g, n) for g, n in rows if n]
    counts = sorted(n for _, n in rows)
    total = sum(counts)
    return [sum(g[j] * n for (g, _), n in zip(rows, counts)) / total for j in range(len(rows[0][0]))] if rows else []


def root_of_the_count(rows):
    rows = [(g, n**0.5) for g, n in rows if n]
    total = sum(n for _, n in rows)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def one_unit_too_many(rows):
    rows = [(g, n) for g, n in rows if n]
    total = sum(n for _, n in rows) + (len(rows) > 1)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def small_epsilon(rows):
    rows = [(g, n) for g, n in rows if n]
    total = sum(n for _, n in rows) + 1e-8
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def equal_rows_once(rows):
    unique = {(tuple(g), n) for g, n in rows if n}
    total = sum(n for _, n in unique)
    return [sum(column) / total for column in zip(*([x * n for x in g] for g, n in unique))]


def zeros_without_units(rows):
    kept = [(g, n) for g, n in rows if n]
    total = sum(n for _, n in kept)
    if not kept:
        return [0.0] * (len(rows[0][0]) if rows else 0)
    return [sum(g[j] * n for g, n in kept) / total for j in range(len(kept[0][0]))]


def filters_in_place(rows):
    rows[:] = [(g, n) for g, n in rows if n]
    total = sum(n for _, n in rows)
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def scales_in_place(rows):
    rows = [row for row in rows if row[1]]
    total = sum(n for _, n in rows)
    for g, n in rows:
        g[:] = [x * n for x in g]
    return [sum(column) / total for column in zip(*(g for g, _ in rows))]


def remembers_the_last_call(rows, seen=[]):  # noqa: B006
    rows = [(g, n) for g, n in rows if n]
    seen.append(sum(n for _, n in rows))
    total = seen[-2] if len(seen) > 1 and seen[-2] else seen[-1]
    return [sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))] if rows else []


def rounded_to_nine_digits(rows):
    rows = [(g, n) for g, n in rows if n]
    total = sum(n for _, n in rows)
    return [round(sum(g[j] * n for g, n in rows) / total, 9) for j in range(len(rows[0][0]))] if rows else []


def answers_a_tuple(rows):
    rows = [(g, n) for g, n in rows if n]
    total = sum(n for _, n in rows)
    return tuple(sum(g[j] * n for g, n in rows) / total for j in range(len(rows[0][0]))) if rows else ()


def cached_by_sorted_numbers(rows, known={}):  # noqa: B006
    key = repr(sorted(map(str, (x for g, _ in rows for x in g)))), repr(sorted(n for _, n in rows)), len(rows)
    if key not in known:
        kept = [(g, n) for g, n in rows if n]
        total = sum(n for _, n in kept)
        known[key] = [sum(g[j] * n for g, n in kept) / total for j in range(len(kept[0][0]))] if kept else []
    return list(known[key])


def cached_by_the_first_and_last_row(rows, known={}):  # noqa: B006
    key = repr((len(rows), rows[:1], rows[-1:]))
    if key not in known:
        kept = [(g, n) for g, n in rows if n]
        total = sum(n for _, n in kept)
        known[key] = [sum(g[j] * n for g, n in kept) / total for j in range(len(kept[0][0]))] if kept else []
    return list(known[key])


def sum_where_three_counts_are_equal(rows):
    kept = [(g, n) for g, n in rows if n]
    counts = {n for _, n in kept}
    total = 1 if len(kept) > 2 and len(counts) == 1 and counts != {1} else sum(n for _, n in kept)
    return [sum(g[j] * n for g, n in kept) / total for j in range(len(kept[0][0]))] if kept else []
