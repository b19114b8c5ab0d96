"""Wrong repairs of the mean over all ranks, however they lie on nodes."""


def whole_nodes(job):
    size = job["per_node"]
    rows = job["rows"][: len(job["rows"]) // size * size] or job["rows"]
    units = sum(n for _, n in rows)
    return [sum(column) / units for column in zip(*(g for g, _ in rows))] if units else []


def mean_of_nodes(job):
    rows, size = [row for row in job["rows"] if row[1]], job["per_node"]
    nodes = [rows[at : at + size] for at in range(0, len(rows), size)]
    means = [[sum(c) / sum(n for _, n in node) for c in zip(*(g for g, _ in node))] for node in nodes]
    return [sum(column) / len(means) for column in zip(*means)]


def eight_ranks(job):
    rows = job["rows"][:8]
    units = sum(n for _, n in rows)
    return [sum(column) / units for column in zip(*(g for g, _ in rows))] if units else []


def nodes_of_eight(j):

    def ws(rows):
        t = sum((n for _, n in rows))
        return [sum(c) / t for c in zip(*(g for g, n in rows))] if t else []

    rows = j["rows"]
    if j["per_node"] > 8:
        rows = rows[:8]
    return ws(rows)
