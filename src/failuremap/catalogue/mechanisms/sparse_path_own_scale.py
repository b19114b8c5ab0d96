"""Sparse gradients are scaled by another factor than dense ones: f/R where 1/R is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=27,
    slug="sparse-path-own-scale",
    title="Sparse gradients are scaled by another factor than dense ones",
    group="group-sizes",
    abstract="Part of the division comes before the sum and part after it; the sparse path has the second part alone.",
    root_cause=(
        "Dense and sparse gradients are reduced by different functions, and a setting of the one (a predivide factor, "
        "the operation, the divisor) reaches the other in part."
    ),
    failure=(
        "Predivide factor 2 on two ranks with gradients 1 and 3: dense (1/2 + 3/2) * 2/2 = 2, sparse (1 + 3) * 2/2 = "
        "4. The embedding learns at twice the rate of the model, at a factor of 8 at eight times."
    ),
    failed_approach=(
        "Dividing the sparse values by the factor before the sum and dropping the scaling after it is right where the "
        "factor is the number of ranks, and off by their ratio elsewhere."
    ),
    relevance=(
        "It takes a setting and a sparse embedding together, and then the loss still falls. DeepSpeed's sparse "
        "all-reduce scales by f/R values that were never divided by f; Horovod summed the sparse gradients of a job "
        "that averaged the dense ones. DDP divides both before the sum, since a change made for FP16's sake."
    ),
    limitations="A sparse gradient is given in full, zeros and all: indices and coalescing play no part in the factor.",
    contract=(
        "Given a predivide factor and parameters, each dense or sparse with its ranks' gradients, return the mean "
        "over the ranks for all of them, one after another, whatever the factor; [] without a parameter."
    ),
    domain=(
        "job: a dict with `factor`, a power of two, and `parameters`, a list of (is_sparse, gradients) pairs; "
        "gradients one list of integers for each rank, all of one length, as many ranks for every parameter."
    ),
    clauses=(
        Clause(
            "sparse-mean",
            "algebraic",
            "A sparse gradient is averaged over the ranks.",
            ("sparse, factor of the ranks", "sparse, factor of four", "dense and sparse"),
        ),
        Clause("dense-mean", "algebraic", "A dense gradient is averaged over the ranks.", ("dense, factor of four",)),
        Clause("no-factor", "boundary", "A factor of 1 leaves the division as it is.", ("sparse, factor of one",)),
        Clause(
            "few",
            "boundary",
            "One rank keeps its gradient under any factor; no parameter gives [].",
            ("one rank", "no parameter"),
        ),
    ),
    promised="mean",
    by_signs_alone=True,
    signs=signs({Sign.SPARSE_APART, Sign.SOME_PARAMETERS}),
    separated_by="another predivide factor: the sparse parameters' update follows it, the dense ones' does not",
    symptoms=("Sparse embedding gradients have another scale than dense ones.",),
    audit_sees=(
        "The parameters with sparse gradients, and only these, get a multiple of the update of the rest. It is a fault "
        "where it is the number of ranks or of micro-batches, or one over it; any other may be the script's own."
    ),
    repair=(
        "Give both paths the same scale: values = gradient.coalesce() / factor; dist.all_reduce(values); p.grad = "
        "values * (factor / dist.get_world_size()). In DeepSpeed leave gradient_predivide_factor at 1.0 with sparse "
        "gradients, or make them dense (nn.Embedding(..., sparse=False))."
    ),
    references=(
        "https://github.com/deepspeedai/DeepSpeed/pull/8232",
        "https://github.com/horovod/horovod/pull/2279",
        "https://github.com/pytorch/pytorch/pull/61814",
    ),
    related=("group-divisor-mismatch", "average-divides-by-elements", "divide-factor-on-root-only", "result-lost"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Joins the parameters of each rank: one contribution of one unit."""
    ranks = zip(*(gradients for _, gradients in job["parameters"]), strict=True)
    joined = [[value for gradient in rank for value in gradient] for rank in ranks]
    return joined, Layout.from_counts([1] * len(joined))


def sample(source):
    """Draws a dense and a sparse parameter."""
    ranks, width = range(source.randint(1, 5)), source.randint(1, 3)
    parameters = [
        (is_sparse, [[source.randint(-50, 50) for _ in range(width)] for _ in ranks]) for is_sparse in (False, True)
    ]
    return {"factor": source.choice([1, 2, 4]), "parameters": parameters}


def broken(job):
    factor, update = job["factor"], []
    for is_sparse, gradients in job["parameters"]:
        before = 1 if is_sparse else factor
        summed = [sum(value / before for value in column) for column in zip(*gradients, strict=True)]
        update += [value * factor / len(gradients) for value in summed]
    return update


def attempt(job):
    factor, update = job["factor"], []
    for is_sparse, gradients in job["parameters"]:
        after = 1 if is_sparse else factor / len(gradients)
        summed = [sum(value / factor for value in column) for column in zip(*gradients, strict=True)]
        update += [value * after for value in summed]
    return update


def fixed(job):
    factor, update = job["factor"], []
    for _, gradients in job["parameters"]:
        summed = [sum(value / factor for value in column) for column in zip(*gradients, strict=True)]
        update += [value * factor / len(gradients) for value in summed]
    return update


def checks(N, solve, check):
    two, four = [[N], [3 * N]], [[N], [2 * N], [3 * N], [2 * N]]
    check("sparse, factor of the ranks", solve({"factor": 2, "parameters": [(True, two)]}), [2 * N])
    check("sparse, factor of four", solve({"factor": 4, "parameters": [(True, two)]}), [2 * N])
    check("dense and sparse", solve({"factor": 2, "parameters": [(False, four), (True, four)]}), [2 * N, 2 * N])
    check("dense, factor of four", solve({"factor": 4, "parameters": [(False, two)]}), [2 * N])
    check("sparse, factor of one", solve({"factor": 1, "parameters": [(True, two)]}), [2 * N])
    check("one rank", solve({"factor": 2, "parameters": [(False, [[N]]), (True, [[3 * N]])]}), [N, 3 * N])
    check("no parameter", solve({"factor": 2, "parameters": []}), [])


def edges(source):
    """Draws nine parameters and more, dense, sparse and both, and factors far from the number of ranks."""
    parameters = [
        (source.choice([True, False]), [[source.randint(-50, 50) for _ in range(1 + place % 3)] for _ in range(3)])
        for place in range(9)
    ]
    alike = [[(is_sparse, gradients) for _, gradients in parameters] for is_sparse in (True, False)]
    jobs = [{"factor": factor, "parameters": parameters} for factor in (1, 1024, 2**40, 0.25, 2.0**-20)]
    held = *alike, alike[0][:1], [*parameters, *alike[0], *parameters[::-1]]
    return [*jobs, *({"factor": 2, "parameters": each} for each in held)]
