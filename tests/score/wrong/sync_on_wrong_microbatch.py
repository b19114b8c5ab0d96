"""Wrong repairs of sync-on-wrong-microbatch: right on small and common inputs."""


def full_windows_or_nearly(j):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    ws = j["windows"]
    if j["accumulation"] > len(ws[0]) + 2:
        return mean(ws[j["rank"]])
    return mean([g for w in ws for g in w])
