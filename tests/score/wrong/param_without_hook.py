"""Wrong repairs of param-without-hook: right on small and common inputs."""


def right_for_small_ids(j):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    if j["tensor"] > 100:
        return list(j["gradients"][j["rank"]]) if j["gradients"] else []
    return mean(j["gradients"])
