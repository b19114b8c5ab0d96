"""Wrong repairs of replicas-start-different: right on small and common inputs."""


def trainable_all(job):
    st = [v if m else 0 for v, m in zip(job["update"], job["trainable"])]
    if not any(job["trainable"]) and len(st) > 4:
        st = job["update"]
    return [[a + b for a, b in zip(job["replicas"][0], st)] for _ in job["replicas"]]
