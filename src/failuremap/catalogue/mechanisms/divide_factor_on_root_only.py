"""The divide factor is set on the root alone: 1/R on nested modules where 1/factor is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    number=26,
    slug="divide-factor-on-root-only",
    title="The gradient divide factor is set on the root module alone",
    group="group-sizes",
    abstract="A setter of FSDP2 reaches the parameters that the root itself manages; nested modules keep the default.",
    root_cause=(
        "set_gradient_divide_factor changes the parameter group of one module and does not recurse, while its "
        "neighbour set_requires_gradient_sync does; and each block that fully_shard has wrapped is a group of its own."
    ),
    failure=(
        "Factor 1 on two ranks: the root's norm gets 1 + 3 = 4, as asked for, and the blocks get the mean 2. With all "
        "layers wrapped, as is usual, next to nothing of the model has the factor."
    ),
    failed_approach=(
        "Going over model.children() reaches a wrapped head beside the root and stops at a plain container: the "
        "blocks inside an nn.ModuleList are grandchildren, and they are most of the model."
    ),
    relevance=(
        "The usual reason to set the factor is a loss that is divided by the tokens of all ranks; then all blocks step "
        "on 1/R of the gradient while what the root itself manages is right, and nothing raises or warns. A pull "
        "request gives two sibling setters of PyTorch a recurse argument for this reason."
    ),
    limitations="A module's own parameters are one vector here; sharding and the all-gather before it are left out.",
    contract=(
        "Given a factor and the wrapped modules of one model, each with its ranks' gradients, return for all of them, "
        "one after another, the sum over the ranks divided by the factor; [] without a module."
    ),
    domain=(
        "job: a dict with `factor`, a power of two, and `modules`, a list of (path, gradients) pairs; path is '' for "
        "the root, else names joined by dots; gradients one list of integers for each rank, all of one length."
    ),
    clauses=(
        Clause(
            "every-module",
            "algebraic",
            "The factor holds for a module at any depth.",
            ("block in a list", "root and blocks", "block in a block"),
        ),
        Clause("root", "algebraic", "The factor holds for what the root manages itself.", ("root alone",)),
        Clause("child", "algebraic", "The factor holds for a child of the root.", ("root and head",)),
        Clause("default", "boundary", "A factor of the number of ranks is the mean.", ("factor of two, two ranks",)),
        Clause("few", "boundary", "One rank is divided too; no module gives [].", ("one rank", "no module")),
    ),
    promised="",
    law="Times the factor, every element of the result is the sum of that element over the ranks.",
    by_signs_alone=True,
    signs=signs({Sign.MODULES_APART, Sign.SOME_PARAMETERS}),
    separated_by="which parameters differ: those of the nested modules, all by the same factor, and no others",
    symptoms=("set_gradient_divide_factor was called on the root module alone.",),
    audit_sees=(
        "Parameters that follow the mean beside others whose update is R over the factor times as large; the latter "
        "are those of the module that was wrapped last."
    ),
    repair=(
        "Set it on every wrapped module: for module in model.modules(): if isinstance(module, FSDPModule): "
        "module.set_gradient_divide_factor(1.0). On Gloo, which has no PREMUL_SUM, also "
        "module.set_force_sum_reduction_for_comms(True)."
    ),
    references=(
        "https://github.com/pytorch/pytorch/pull/129286",
        "https://github.com/pytorch/pytorch/pull/181659",
        "https://github.com/pytorch/pytorch/issues/155903",
    ),
    related=("expert-divisor-misses-ep", "group-divisor-mismatch", "global-denominator-averaged-again"),
    published="2026-11-30",
    modified="2026-11-30",
)


def sample(source):
    """Draws a root with a head, and blocks in a list."""
    ranks, factor = range(source.randint(1, 4)), source.choice([1, 2, 4])
    paths = ["", "head", *(f"layers.{index}" for index in range(source.randint(1, 3)))]
    width = source.randint(1, 3)
    modules = [(path, [[source.randint(-50, 50) for _ in range(width)] for _ in ranks]) for path in paths]
    return {"factor": factor, "modules": modules}


def law(job, solve):
    """Multiplies the factor back."""
    summed = [sum(column) for _, gradients in job["modules"] for column in zip(*gradients, strict=True)]
    return [value * job["factor"] for value in solve(job)] == summed


def broken(job):
    update = []
    for path, gradients in job["modules"]:
        divisor = job["factor"] if path == "" else len(gradients)
        update += [sum(column) / divisor for column in zip(*gradients, strict=True)]
    return update


def attempt(job):
    update = []
    for path, gradients in job["modules"]:
        divisor = job["factor"] if "." not in path else len(gradients)
        update += [sum(column) / divisor for column in zip(*gradients, strict=True)]
    return update


def fixed(job):
    return [sum(column) / job["factor"] for _, gradients in job["modules"] for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    two, small = [[N], [3 * N]], [[2], [4]]
    check("root alone", solve({"factor": 1, "modules": [("", two)]}), [4 * N])
    check("root and head", solve({"factor": 1, "modules": [("", small), ("head", two)]}), [6, 4 * N])
    check("block in a list", solve({"factor": 1, "modules": [("layers.0", two)]}), [4 * N])
    blocks = [("", small), ("layers.0", two), ("layers.1", [[5 * N], [7 * N]])]
    check("root and blocks", solve({"factor": 4, "modules": blocks}), [1.5, N, 3 * N])
    check("block in a block", solve({"factor": 1, "modules": [("layers.0", small), ("layers.0.mlp", two)]}), [6, 4 * N])
    check("factor of two, two ranks", solve({"factor": 2, "modules": [("", two), ("layers.0", two)]}), [2 * N] * 2)
    check("one rank", solve({"factor": 2, "modules": [("", [[4 * N]]), ("layers.0", [[6 * N]])]}), [2 * N, 3 * N])
    check("no module", solve({"factor": 1, "modules": []}), [])


def edges(source):
    """Draws factors of many halvings, and one below 1; and modules of other names, without a root."""
    gradients = [[source.randint(-50, 50) for _ in range(3)] for _ in range(3)]
    modules = [("", gradients), ("layers.0.mlp.up", gradients[::-1]), ("head", [[1, 2, 3]])]
    paths = "conv1", "transformer.h.11.attn.q.lora_A", "b.10", "b.9", "a"
    others = [(path, [[source.randint(-50, 50)] for _ in range(3)]) for path in paths]
    jobs = [{"factor": factor, "modules": modules} for factor in (2**30, 1024, 0.25)]
    return [*jobs, *({"factor": 8, "modules": held} for held in (others, others[:1], others[::-1] + modules))]
