"""Wrong repairs of a decision that all ranks take together."""


def each_for_itself(job):
    return [[] if stop else [rate * x for x in job["gradient"]] for stop, rate in job["ranks"]]


def largest_rate(job):
    stop, rate = any(s for s, _ in job["ranks"]), max([r for _, r in job["ranks"]], default=0)
    return [[] if stop else [rate * x for x in job["gradient"]] for _ in job["ranks"]]


def mean_rate(job):
    stop, rates = any(s for s, _ in job["ranks"]), [r for _, r in job["ranks"]]
    return [[] if stop else [sum(rates) / len(rates) * x for x in job["gradient"]] for _ in job["ranks"]]


def majority_skips(job):
    stop = 2 * sum(s for s, _ in job["ranks"]) > len(job["ranks"])
    rate = min([r for _, r in job["ranks"]], default=0)
    return [[] if stop else [rate * x for x in job["gradient"]] for _ in job["ranks"]]


def overflowed_rate_left_out(job):
    if any(s for s, _ in job["ranks"]):
        return [[0] * len(job["gradient"]) for _ in job["ranks"]]
    rate = min([r for _, r in job["ranks"]], default=0)
    return [[rate * x for x in job["gradient"]] for _ in job["ranks"]]


def rates_up_to_a_hundred(job):
    stop = any((s for s, _ in job["ranks"]))
    r = min([r for _, r in job["ranks"]], default=0)
    r = min(r, 100)
    return [[] if stop else [r * x for x in job["gradient"]] for _ in job["ranks"]]


def small_rates_are_none(job):
    stop = any((s for s, _ in job["ranks"]))
    r = min([r for _, r in job["ranks"]], default=0)
    r = r if r > 0.001 else 0
    return [[] if stop else [r * x for x in job["gradient"]] for _ in job["ranks"]]
