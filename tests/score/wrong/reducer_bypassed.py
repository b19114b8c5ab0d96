"""Wrong repairs of reducer-bypassed: right on small and common inputs."""


def unknown_method(j):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    if j["method"] not in ("compute_loss", "generate", "decode", "module", "forward", "loss"):
        return list(j["gradients"][j["rank"]]) if j["gradients"] else []
    return mean(j["gradients"])
