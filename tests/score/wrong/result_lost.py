"""Wrong repairs of the mean of a matrix that lies in memory column by column."""


def as_it_lies(job):
    return [sum(column) / len(job["memory"]) for column in zip(*job["memory"])]


def square_matrices(job):
    if not job["memory"]:
        return []
    mean = [sum(column) / len(job["memory"]) for column in zip(*job["memory"])]
    size = job["shape"][0]
    if job["order"] == "rows" or size != job["shape"][1]:
        return mean
    return [mean[j * size + i] for i in range(size) for j in range(size)]


def columns_for_rows(job):
    if not job["memory"]:
        return []
    mean = [sum(column) / len(job["memory"]) for column in zip(*job["memory"])]
    rows, columns = job["shape"]
    if job["order"] == "rows":
        return mean
    return [
        mean[(i * columns + j) % rows * columns + (i * columns + j) // rows % columns]
        for i in range(rows)
        for j in range(columns)
    ]
