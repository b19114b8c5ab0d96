"""A parameter carries no reduction hook: own rank only on it, 1/R on the rest."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=47,
    slug="param-without-hook",
    title="A parameter carries no reduction hook",
    group="synchronisation",
    abstract="Some parameters are never reduced and drift apart, while all others are right.",
    root_cause="The parameter was added, replaced or moved after the wrapping, is ignored by it, or lives outside it.",
    failure=(
        "A head that was added after wrapping gets the gradients 1 and 3 on two ranks and steps on 1 and on 3, where 2 "
        "is right; the backbone under it is stepped alike on both."
    ),
    failed_approach=(
        "The script reduces by hand what the wrapper's list of names lacks. A replaced or moved parameter is in the "
        "list, since its name is the old one's; the hook sits on a tensor that no longer takes part."
    ),
    relevance=(
        "A checkpoint holds the first rank's head on a backbone that all ranks trained. Met with parameters added or "
        "replaced after DistributedDataParallel(...), with adapters that patch forward and belong to no wrapped "
        "module, with FSDP's ignored modules, and with a wrapped model that was moved to the CPU and back."
    ),
    limitations=(
        "A hook is a tensor's id in a table. That DDP waits for the tensor that was replaced, and raises at the next "
        "forward unless find_unused_parameters=True, is not modelled."
    ),
    contract=(
        "Given the tensors that carry a reduction hook, one trainable parameter and its gradient on each rank: return "
        "the gradient that a rank steps on, which is the mean over the ranks for every parameter; no rank gives []."
    ),
    domain=(
        "job: a dict with `hooks`, parameter name -> id of the tensor that got the hook; `name` and `tensor`, the "
        "parameter's name and the id of its tensor now; `gradients`, one list of finite numbers for each rank, all of "
        "one length; `rank`, an index of `gradients`."
    ),
    clauses=(
        Clause(
            "hooked",
            "algebraic",
            "A parameter whose tensor carries the hook is reduced, once.",
            ("hooked parameter",),
        ),
        Clause(
            "unhooked",
            "algebraic",
            "A parameter whose name has no hook is reduced all the same.",
            ("added after wrapping", "no hook at all"),
        ),
        Clause(
            "replaced",
            "algebraic",
            "A parameter that is another tensor under a known name is reduced as well.",
            ("replaced after wrapping", "replaced on three ranks"),
        ),
        Clause("one-rank", "boundary", "A single rank steps on its own gradient.", ("one rank",)),
        Clause("no-rank", "boundary", "Without any gradient there is no update: [].", ("no rank",)),
    ),
    promised="mean",
    followed=("own_rank", "own_rank_weighted"),
    by_signs_alone=True,
    signs=signs({Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS}),
    never=frozenset({Sign.SINGLE_RANK, Sign.RESULT_UNUSED, Sign.REDUCTION_UNAWAITED, Sign.REDUCTION_FAILED}),
    separated_by="the parameters concerned: some here, all where nothing is reduced",
    symptoms=(
        "A parameter added or replaced after DDP was constructed is not reduced: LoRA adapters, ignored modules.",
        "Moving the wrapped model to CPU and back stops its synchronisation.",
        "Layers frozen at first and unfrozen later are in none of the buckets.",
    ),
    audit_sees=(
        "Parameters, by name, whose update is the rank's own contribution on every rank, beside others whose update "
        "is the mean."
    ),
    repair=(
        "Wrap last, when no parameter will be added, replaced or moved any more, and wrap one module whose forward "
        "uses them all: model = DistributedDataParallel(Everything(backbone, head)); loss = loss_of(model(inputs)). "
        "A parameter that stays outside: broadcast it once, then before each step dist.all_reduce(p.grad); p.grad "
        "/= dist.get_world_size()"
    ),
    references=(
        "https://github.com/pytorch/pytorch/issues/12603",
        "https://github.com/pytorch/pytorch/issues/104336",
        "https://github.com/pytorch/pytorch/issues/98281",
        "https://github.com/kohya-ss/sd-scripts/pull/989",
        "https://github.com/EleutherAI/gpt-neox/pull/1257",
        "https://github.com/BrotherHappy/OSTQuant/issues/15",
    ),
    related=("reducer-bypassed", "unused-on-last-microbatch", "partials-not-reduced", "result-lost"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Takes the gradients as one contribution a rank, seen by the job's rank."""
    counts = {(rank, 0): 1 for rank in range(len(job["gradients"]))}
    return job["gradients"], Layout.grid(counts, observer=job["rank"])


def sample(source):
    """Draws a parameter that was added, or replaced, after three others had got their hooks."""
    width = source.randint(1, 4)
    gradients = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 5))]
    hooks = {"embedding.weight": 1, "layer.weight": 2, "head.weight": 3}
    name = source.choice(["head.weight", "head.bias", "adapter.weight"])
    return {"hooks": hooks, "name": name, "tensor": 4, "gradients": gradients, "rank": source.randrange(len(gradients))}


def broken(job):
    gradients = job["gradients"]
    if not gradients:
        return []
    hook_fires = job["hooks"].get(job["name"]) == job["tensor"]
    if not hook_fires:
        return list(gradients[job["rank"]])
    return [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def attempt(job):
    gradients = job["gradients"]
    if not gradients:
        return []
    hook_fires = job["hooks"].get(job["name"]) == job["tensor"]
    reduced_by_hand = job["name"] not in job["hooks"]
    if not (hook_fires or reduced_by_hand):
        return list(gradients[job["rank"]])
    return [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def fixed(job):
    gradients = job["gradients"]
    return [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    hooks = {"body": 1, "head": 2}
    two = [[N, 2 * N], [3 * N, 8 * N]]
    mean = [2 * N, 5 * N]
    check("hooked parameter", solve({"hooks": hooks, "name": "body", "tensor": 1, "gradients": two, "rank": 0}), mean)
    check(
        "added after wrapping", solve({"hooks": hooks, "name": "new", "tensor": 3, "gradients": two, "rank": 0}), mean
    )
    check(
        "replaced after wrapping",
        solve({"hooks": hooks, "name": "head", "tensor": 3, "gradients": two, "rank": 1}),
        mean,
    )
    check(
        "no hook at all",
        solve({"hooks": {}, "name": "head", "tensor": 2, "gradients": [[N], [5]], "rank": 1}),
        [(N + 5) / 2],
    )
    three = [[N], [N + 1], [N + 5]]
    check(
        "replaced on three ranks",
        solve({"hooks": hooks, "name": "body", "tensor": 9, "gradients": three, "rank": 0}),
        [N + 2],
    )
    check("one rank", solve({"hooks": hooks, "name": "head", "tensor": 3, "gradients": [[N, -N]], "rank": 0}), [N, -N])
    check("no rank", solve({"hooks": hooks, "name": "head", "tensor": 2, "gradients": [], "rank": 0}), [])


def edges(source):
    """Draws a parameter that has its hook, and ids and names as jobs have them."""
    gradients = [[source.randint(-50, 50) for _ in range(2)] for _ in range(8)]
    first = 140_000_000_000_000 + source.randint(0, 9)
    hooks = {f"layers.{index}.mlp.weight": first + 64 * index for index in range(12)}
    held = [({}, "head", first), (hooks, "layers.3.mlp.weight", first + 192), (hooks, "layers.3.mlp.weight", first)]
    held += [(hooks, "layers.12.mlp.weight", first + 1), (hooks, "layers.11.mlp.weight", 0)]
    return [
        {"hooks": found, "name": name, "tensor": tensor, "gradients": gradients, "rank": source.randrange(8)}
        for found, name, tensor in held
    ]
