"""Wrong repairs of the mean in which unused passes count as zeros."""


def mean_of_the_used(job):
    parts = [part for window in job["windows"] for part in window if part is not None]
    return [sum(column) / len(parts) for column in zip(*parts)]


def ranks_that_used_it(job):
    used = [window for window in job["windows"] if any(part is not None for part in window)]
    parts = [part for window in used for part in window if part is not None]
    return [sum(column) / (len(used) * len(used[0])) for column in zip(*parts)]


def zeros_where_never_used(job):
    parts = [part for window in job["windows"] for part in window if part is not None]
    count = sum(map(len, job["windows"]))
    return [sum(column) / count for column in zip(*parts)] if parts else [0.0]


def own_rank_first(job):
    if all(part is None for part in job["windows"][job["rank"]]):
        return []
    parts = [part for window in job["windows"] for part in window if part is not None]
    return [sum(column) / sum(map(len, job["windows"])) for column in zip(*parts)]
