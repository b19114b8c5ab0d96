"""Wrong repairs of count-overflows: right on small and common inputs."""


def total_in_16_bits(rows):
    t = sum((n for _, n in rows))
    if not t:
        return []
    t16 = (t + 2**15) % 2**16 - 2**15
    return [sum((g[j] * n for g, n in rows)) / (t16 or 1) for j in range(len(rows[0][0]))]


def total_in_16_bits_unsigned(rows):
    t = sum((n for _, n in rows))
    if not t:
        return []
    return [sum((g[j] * n for g, n in rows)) / (t & 65535 or 1) for j in range(len(rows[0][0]))]
