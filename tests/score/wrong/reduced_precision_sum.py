"""Wrong repairs of the sum that is rounded to bfloat16 once."""

import math


def rounded_each_time(vectors):
    def to_bfloat16(value):
        fraction, exponent = math.frexp(value)
        return math.ldexp(round(fraction * 256), exponent - 8)

    totals = [0] * (len(vectors[0]) if vectors else 0)
    for vector in vectors:
        totals = [to_bfloat16(t + v) for t, v in zip(totals, vector)]
    return totals


def not_rounded(vectors):
    return [math.fsum(column) for column in zip(*vectors)]


def cut_off(vectors):
    def to_bfloat16(value):
        fraction, exponent = math.frexp(value)
        return math.ldexp(math.trunc(fraction * 256), exponent - 8)

    return [to_bfloat16(math.fsum(column)) for column in zip(*vectors)]


def ties_away_from_zero(vectors):
    def to_bfloat16(value):
        fraction, exponent = math.frexp(abs(value))
        return math.copysign(math.ldexp(math.floor(fraction * 256 + 0.5), exponent - 8), value)

    return [to_bfloat16(math.fsum(column)) for column in zip(*vectors)]


def one_bit_more(vectors):
    def to_bfloat16(value):
        fraction, exponent = math.frexp(value)
        return math.ldexp(round(fraction * 512), exponent - 9)

    return [to_bfloat16(math.fsum(column)) for column in zip(*vectors)]


def added_in_32_bits(v):
    import struct

    def bf(x):
        f, e = math.frexp(x)
        return math.ldexp(round(f * 256), e - 8)

    out = []
    for c in zip(*v):
        t = 0.0
        for x in c:
            t = struct.unpack("f", struct.pack("f", t + x))[0]
        out.append(bf(t))
    return out
