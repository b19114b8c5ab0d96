"""The collective's result is in another tensor than the one that is used."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=53,
    slug="result-lost",
    title="The result of the collective is not the tensor that is used",
    group="synchronisation",
    abstract="The ranks do add their gradients up, in a copy that nobody reads afterwards.",
    root_cause=(
        "A conversion before an in-place all_reduce (.contiguous(), .float(), .coalesce()) returns the tensor itself "
        "or a copy, depending on what it is; the code behind it counts on the former."
    ),
    failure=(
        "Row by row, the transposed gradients hold [1, 3, 2, 4] and [3, 7, 4, 4] on two ranks. The copy holds their "
        "mean [2, 5, 3, 4] on both, and each rank steps on its own. The same lines are right for the parameter next to "
        "it, whose gradient is contiguous."
    ),
    failed_approach=(
        "The copy's memory is written back into the gradient's memory. The two hold the elements in different orders, "
        "so a transposed or channels-last gradient comes back reduced and scrambled."
    ),
    relevance=(
        "It waits for a layout or a type: a channels-last convolution, a tied weight used transposed, bfloat16 weights "
        "behind a .float() that was free in float32. Met in a tensor-parallel reduction behind .contiguous(), in the "
        "backward of all_gather, and in a sparse all_reduce that left its inputs as they were."
    ),
    limitations=(
        "A matrix with two memory orders stands for all conversions; a copy in another type, or a coalesced sparse "
        "tensor, is lost in the same way but would be written back with a rounding or an index of its own."
    ),
    contract=(
        "Given one matrix gradient for each rank as it lies in memory, and a rank: return the mean over the ranks, "
        "row after row, whichever order the memory is in; no rank gives []."
    ),
    domain=(
        "job: a dict with `shape`, (rows, columns); `order`, `rows` where row after row lies in memory and `columns` "
        "where column after column does; `memory`, one list of rows * columns finite numbers for each rank; `rank`, "
        "an index of `memory`."
    ),
    clauses=(
        Clause(
            "reduced",
            "algebraic",
            "A gradient that isn't contiguous is reduced, too.",
            ("column order", "second rank, column order"),
        ),
        Clause(
            "element-by-element",
            "algebraic",
            "Every element of the result is the mean of the same element on the ranks.",
            ("ranks alike, column order", "three ranks"),
        ),
        Clause("contiguous", "algebraic", "A contiguous gradient is reduced in place.", ("row order",)),
        Clause("one-column", "boundary", "A single column is the same in both orders.", ("one column",)),
        Clause("one-rank", "boundary", "A single rank's gradient stays as it is.", ("one rank",)),
        Clause("no-rank", "boundary", "Without a gradient there is no update: [].", ("no rank",)),
    ),
    promised="mean",
    by_signs_alone=True,
    signs=signs({Sign.RESULT_UNUSED}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="the collectives that were called: here one on every gradient, where nothing is reduced none",
    symptoms=(
        "all_reduce works on a copy (cat, contiguous, to) that is never written back: the gradient is unchanged.",
        "The return value of the all-reduce is dropped.",
    ),
    audit_sees=(
        "Updates that hold the contributions of the rank, or of its group, and of no other; and, in or after backward, "
        "a reduction over the ranks that are missing, of as many elements as these parameters have, into a tensor that "
        "is no gradient. Of parameters with fewer than 32 elements together it doesn't tell."
    ),
    repair=(
        "Write the result back: buffer = p.grad.contiguous(); dist.all_reduce(buffer); p.grad.copy_(buffer), where "
        "copy_ goes by index, not by memory. Inside a function return the tensor that was reduced, not its argument."
    ),
    references=(
        "https://github.com/NVIDIA/Megatron-LM/issues/5337",
        "https://github.com/pytorch/pytorch/pull/120582",
        "https://github.com/pytorch/pytorch/issues/31413",
    ),
    related=("never-synchronised", "param-without-hook", "read-before-reduced", "gathered-part-detached"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Reads each rank's memory row by row, as one contribution."""
    rows, columns = job["shape"]
    by_rows = job["order"] == "rows"
    places = [i * columns + j if by_rows else j * rows + i for i in range(rows) for j in range(columns)]
    gradients = [[memory[place] for place in places] for memory in job["memory"]]
    return gradients, Layout.from_counts([1] * len(gradients))


def sample(source):
    """Draws a matrix of 1 to 3 rows and columns, in either order, on 1 to 4 ranks."""
    rows, columns = source.randint(1, 3), source.randint(1, 3)
    memory = [[source.randint(-50, 50) for _ in range(rows * columns)] for _ in range(source.randint(1, 4))]
    order = source.choice(["rows", "columns"])
    return {"shape": (rows, columns), "order": order, "memory": memory, "rank": source.randrange(len(memory))}


def broken(job):
    if not job["memory"]:
        return []
    rows, columns = job["shape"]
    contiguous = job["order"] == "rows" or 1 in job["shape"]
    places = [i * columns + j if contiguous else j * rows + i for i in range(rows) for j in range(columns)]
    buffers = [memory if contiguous else [memory[place] for place in places] for memory in job["memory"]]
    reduced = [sum(column) / len(buffers) for column in zip(*buffers, strict=True)]
    gradient = reduced if contiguous else job["memory"][job["rank"]]
    return [gradient[place] for place in places]


def attempt(job):
    if not job["memory"]:
        return []
    rows, columns = job["shape"]
    contiguous = job["order"] == "rows" or 1 in job["shape"]
    places = [i * columns + j if contiguous else j * rows + i for i in range(rows) for j in range(columns)]
    buffers = [memory if contiguous else [memory[place] for place in places] for memory in job["memory"]]
    reduced = [sum(column) / len(buffers) for column in zip(*buffers, strict=True)]
    gradient = list(reduced)
    return [gradient[place] for place in places]


def fixed(job):
    if not job["memory"]:
        return []
    rows, columns = job["shape"]
    contiguous = job["order"] == "rows" or 1 in job["shape"]
    places = [i * columns + j if contiguous else j * rows + i for i in range(rows) for j in range(columns)]
    buffers = [[memory[place] for place in places] for memory in job["memory"]]
    return [sum(column) / len(buffers) for column in zip(*buffers, strict=True)]


def checks(N, solve, check):
    two = [[N, 2, 3, 4], [3 * N, 4, 7, 4]]
    by_columns = {"shape": (2, 2), "order": "columns", "memory": two, "rank": 0}
    check("column order", solve(by_columns), [2 * N, 5, 3, 4])
    check("second rank, column order", solve({**by_columns, "rank": 1}), [2 * N, 5, 3, 4])
    check("ranks alike, column order", solve({**by_columns, "memory": [[N, 2, 3, 4]] * 2}), [N, 3, 2, 4])
    three = [[N, 0, 1, 2], [N + 1, 3, 1, 2], [N + 5, 6, 4, 2]]
    check("three ranks", solve({**by_columns, "memory": three, "rank": 2}), [N + 2, 2, 3, 2])
    check("row order", solve({**by_columns, "order": "rows"}), [2 * N, 3, 5, 4])
    check(
        "one column",
        solve({"shape": (2, 1), "order": "columns", "memory": [[N, 1], [3 * N, 5]], "rank": 1}),
        [2 * N, 3],
    )
    check("one rank", solve({**by_columns, "memory": [[N, 2, 3, 4]]}), [N, 3, 2, 4])
    check("no rank", solve({**by_columns, "memory": []}), [])


def edges(source):
    """Draws matrices that are long, wide, square or empty, in either order."""
    shapes = (5, 7), (7, 5), (17, 2), (2, 17), (4, 4), (13, 1), (1, 13), (0, 3), (3, 0)
    made = [(shape, order) for shape in shapes for order in ("columns", "rows") if order == "columns" or shape[0] == 5]
    memory = {shape: [[source.randint(-50, 50) for _ in range(shape[0] * shape[1])] for _ in "ab"] for shape in shapes}
    return [
        {"shape": shape, "order": order, "memory": memory[shape], "rank": source.randrange(2)} for shape, order in made
    ]
