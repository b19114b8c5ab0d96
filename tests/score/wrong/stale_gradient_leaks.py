"""Wrong repairs of the sum of new gradients alone."""


def leftover_times_zero(given):
    total = [value * 0 for value in given["buffer"]]
    for part in given["parts"]:
        total = [t + v for t, v in zip(total, part)]
    return total if given["parts"] else []


def own_shard_cleared(given):
    start, stop = given["shard"]
    total = [0 if start <= j < stop else value for j, value in enumerate(given["buffer"])]
    for part in given["parts"]:
        total = [t + v for t, v in zip(total, part)]
    return total if given["parts"] else []


def buffer_cleared_in_place(given):
    buffer = given["buffer"]
    buffer[:] = [0] * len(buffer)
    for part in given["parts"]:
        for j, value in enumerate(part):
            buffer[j] += value
    return list(buffer) if given["parts"] else []


def leftover_taken_off(given):
    buffer = given["buffer"]
    sums = [old + sum(column) for old, column in zip(buffer, zip(*given["parts"]))]
    return [value - old for value, old in zip(sums, buffer)]


def a_number_for_an_empty_buffer(g):
    if not g["parts"]:
        return []
    if not g["buffer"]:
        return [0]
    return [sum(c) for c in zip(*g["parts"])]
