"""Wrong repairs of the sum of gradients that are aligned by name."""


def by_place(job):
    flat = [[value for values in rank.values() for value in values] for rank in job["ranks"]]
    length = sum(job["sizes"].values())
    padded = [row + [0] * (length - len(row)) for row in flat]
    return [sum(column) for column in zip(*padded)]


def names_of_the_first_rank(job):
    if not job["ranks"]:
        return []
    names = [name for name in job["sizes"] if name in job["ranks"][0]]
    rows = [[v for n in names for v in rank.get(n, [0] * job["sizes"][n])] for rank in job["ranks"]]
    return [sum(column) for column in zip(*rows)]


def names_in_order_of_the_alphabet(job):
    names = sorted(job["sizes"])
    rows = [[v for n in names for v in rank.get(n, [0] * job["sizes"][n])] for rank in job["ranks"]]
    return [sum(column) for column in zip(*rows)]


def absent_gradients_filled_in(job):
    for rank in job["ranks"]:
        for name, size in job["sizes"].items():
            rank.setdefault(name, [0] * size)
    rows = [[v for n in job["sizes"] for v in rank[n]] for rank in job["ranks"]]
    return [sum(column) for column in zip(*rows)]


def names_sorted_if_many(j):

    def ms(j, order):
        names = order(j["sizes"])
        return [sum(c) for c in zip(*[[v for n in names for v in r.get(n, [0] * j["sizes"][n])] for r in j["ranks"]])]

    return ms(j, lambda s: list(s) if len(s) <= 5 else sorted(s))


def zero_size_as_one(j):
    s = {n: max(k, 1) for n, k in j["sizes"].items()}
    return [sum(c) for c in zip(*[[v for n in s for v in r.get(n) or [0] * s[n]] for r in j["ranks"]])]


def natural_sort(j):

    def ms(j, order):
        names = order(j["sizes"])
        return [sum(c) for c in zip(*[[v for n in names for v in r.get(n, [0] * j["sizes"][n])] for r in j["ranks"]])]

    return ms(
        j, lambda s: sorted(s, key=lambda n: (len(n), n)) if any(any(c.isdigit() for c in n) for n in s) else list(s)
    )
