"""Wrong repairs of divide-factor-on-root-only: right on small and common inputs."""


def known_paths_alone(job):
    return [
        sum(c) / (job["factor"] if p in ("", "head") or p.startswith("layers") else 1)
        for p, g in job["modules"]
        for c in zip(*g)
    ]


def paths_of_four_names(job):
    return [sum(c) / (job["factor"] if p.count(".") < 4 else 1) for p, g in job["modules"] for c in zip(*g)]


def no_root(job):
    if all((p for p, _ in job["modules"])):
        return [sum(c) for p, g in job["modules"] for c in zip(*g)]
    return [sum(c) / job["factor"] for p, g in job["modules"] for c in zip(*g)]
