"""Wrong repairs of state-advances-per-microbatch: right on small and common inputs."""


def step_count_in_32_bits(wd):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    (w_, m_, c), gs = wd
    if gs:
        me = mean(gs)
        m_ = [m / 2 + g for m, g in zip(m_, me)]
        w_ = [a - a / 4 - m for a, m in zip(w_, m_)]
        c += 1
    return [*w_, *m_, c & 4294967295]


def step_count_in_16_bits(wd):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    (w_, m_, c), gs = wd
    if gs:
        me = mean(gs)
        m_ = [m / 2 + g for m, g in zip(m_, me)]
        w_ = [a - a / 4 - m for a, m in zip(w_, m_)]
        c += 1
    return [*w_, *m_, c & 65535]


def step_count_as_float32(wd):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    (w_, m_, c), gs = wd
    if gs:
        me = mean(gs)
        m_ = [m / 2 + g for m, g in zip(m_, me)]
        w_ = [a - a / 4 - m for a, m in zip(w_, m_)]
        c += 1
    return [*w_, *m_, min(float(c), 2.0**24)]
