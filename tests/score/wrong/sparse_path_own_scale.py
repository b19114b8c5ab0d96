"""Wrong repairs of a mean that no factor changes."""


def factor_only_for_dense(job):
    update = []
    for sparse, gradients in job["parameters"]:
        scale = 1 / job["factor"] if sparse else 1
        update += [sum(column) * scale / len(gradients) for column in zip(*gradients)]
    return update


def two_parameters(job):
    return [sum(c) / len(gs) for _, gs in job["parameters"][:2] for c in zip(*gs)]


def divided_by_the_factor(job):
    return [sum(column) / job["factor"] for _, gradients in job["parameters"] for column in zip(*gradients)]


def factors_of_one_or_more(job):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    u = []
    for s, g in job["parameters"]:
        u += [x * (job["factor"] if s and job["factor"] < 1 else 1) for x in mean(g)]
    return u
