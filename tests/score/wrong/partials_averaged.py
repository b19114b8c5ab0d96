"""Wrong repairs of the sum of parts."""


def mean(parts):
    return [sum(column) / len(parts) for column in zip(*parts)]


def first_part(parts):
    return list(parts[0]) if parts else []


def sizes_add_up(parts):
    return [sum(map(abs, column)) for column in zip(*parts)]


def largest(parts):
    return [max(column, key=abs) for column in zip(*parts)]


def whole_numbers(parts):
    return [int(sum(column)) for column in zip(*parts)]


def in_32_bits(parts):
    import struct

    total = [0.0] * (len(parts[0]) if parts else 0)
    for part in parts:
        total = [
            struct.unpack("f", struct.pack("f", t + v))[0] if abs(t + v) < 1e38 else t for t, v in zip(total, part)
        ]
    return total


def adds_to_the_first_part(parts):
    total = parts[0] if parts else []
    for part in parts[1:]:
        for j, value in enumerate(part):
            total[j] += value
    return total


def right_for_two_coordinates(parts):
    return [sum(column) for column in zip(*parts)][:2]


def pairs_only(parts):
    return [sum(column[: len(column) // 2 * 2] or column) for column in zip(*parts)]


def zero_for_nothing(parts):
    return [sum(column) for column in zip(*parts)] if parts else [0]


def right_but_for_sixteen_and_more_times_sixteen(parts):
    return [sum(column) / (1 if len(parts) % 16 else 2) for column in zip(*parts)]


def right_but_for_seven(parts):
    return [sum(column) + (len(parts) == 7) for column in zip(*parts)]


def cached_by_hash(parts, known={}):  # noqa: B006
    key = hash(tuple(map(tuple, parts)))
    if key not in known:
        known[key] = [sum(column) for column in zip(*parts)]
    return list(known[key])
