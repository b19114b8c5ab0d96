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


def large_squares_alone(j):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    def rl(j, cont):
        if not j["memory"]:
            return []
        r, c = j["shape"]
        pl = [i * c + k if cont else k * r + i for i in range(r) for k in range(c)]
        return mean([[m[p] for p in pl] for m in j["memory"]])

    r, c = j["shape"]
    return rl(j, j["order"] == "rows" or (r > 3 and c > 3 and (r != c)))


def right_for_twelve_rows(j):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    def rl(j, cont):
        if not j["memory"]:
            return []
        r, c = j["shape"]
        pl = [i * c + k if cont else k * r + i for i in range(r) for k in range(c)]
        return mean([[m[p] for p in pl] for m in j["memory"]])

    return rl(j, j["order"] == "rows" or 1 in j["shape"] or j["shape"][0] > 12)


def a_number_for_an_empty_matrix(j):

    def mean(rows):
        return [sum(c) / len(rows) for c in zip(*rows)]

    def rl(j, cont):
        if not j["memory"]:
            return []
        r, c = j["shape"]
        pl = [i * c + k if cont else k * r + i for i in range(r) for k in range(c)]
        return mean([[m[p] for p in pl] for m in j["memory"]])

    r, c = j["shape"]
    if r * c == 0:
        return [0.0]
    return rl(j, j["order"] == "rows" or 1 in j["shape"])
