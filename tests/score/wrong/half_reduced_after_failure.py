"""Wrong repairs of half-reduced-after-failure: right on small and common inputs."""


def only_first_eight_ranks(j):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    return [] if any(a is not None for a in j["failed"][:8]) else [v for b in j["buckets"] for v in mean(b)]


def one_rank_ignores(j):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    if len(j["failed"]) == 1:
        return [v for b in j["buckets"] for v in mean(b)]
    return [] if any(a is not None for a in j["failed"]) else [v for b in j["buckets"] for v in mean(b)]


def nothing_where_all_means_are_zero(job):
    if any(at is not None for at in job["failed"]):
        return []
    means = [sum(column) / len(bucket) for bucket in job["buckets"] for column in zip(*bucket)]
    return means if any(means) else []
