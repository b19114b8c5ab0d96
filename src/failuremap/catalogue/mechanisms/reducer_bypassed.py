"""The backward pass never reaches the reducer: the wrapper is there and is not called."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=46,
    slug="reducer-bypassed",
    title="The backward pass never reaches the reducer",
    group="synchronisation",
    abstract="The model is wrapped, but its gradients never pass the wrapper: each rank trains a model of its own.",
    root_cause="The loop calls model.module or a method of it, so the wrapper's forward never arms the reducer.",
    failure=(
        "Two ranks with the gradients 1 and 3 should both step on 2. They step on 1 and on 3, and after the first step "
        "no two replicas are the same model."
    ),
    failed_approach=(
        "An all_reduce after backward adds the ranks' gradients up and leaves the division out: the wrapper's reducer "
        "had divided by the number of ranks, a bare all_reduce doesn't, so every step is R times too long."
    ),
    relevance=(
        "Nothing fails and the logged loss falls on every rank; only the saved rank counts, and it has seen 1/R of the "
        "data. Met where a loss, decode or generate method is called on the unwrapped module, in manual optimisation "
        "of a framework that had moved the arming elsewhere, and where a second code path skips the finalising step."
    ),
    limitations=(
        "One backward pass is modelled, and the reducer as a switch that forward sets; buckets, and a reducer that "
        "was armed by an earlier forward and not used, are left out."
    ),
    contract=(
        "Given each rank's gradient, the method through which the loss was computed, and a rank: return the gradient "
        "that this rank steps on, which is the mean over the ranks through whichever method; no rank gives []."
    ),
    domain=(
        "job: a dict with `gradients`, one list of finite numbers for each rank, all of one length; `method`, the name "
        "of the method that was called, `forward` where it was the wrapper itself; `rank`, an index of `gradients`."
    ),
    clauses=(
        Clause(
            "mean-through-any-method",
            "algebraic",
            "The mean over the ranks is stepped on, whatever method computed the loss.",
            ("loss method of the module", "generate", "three ranks"),
        ),
        Clause(
            "forward", "algebraic", "The wrapper's own forward gives the mean once, not twice.", ("wrapper called",)
        ),
        Clause(
            "same-on-all-ranks",
            "algebraic",
            "Every rank steps on the same gradient.",
            ("same on both ranks",),
        ),
        Clause("one-rank", "boundary", "A single rank steps on its own gradient.", ("one rank",)),
        Clause("no-rank", "boundary", "Without any gradient there is no update: [].", ("no rank",)),
    ),
    promised="mean",
    followed=("own_rank", "own_rank_weighted"),
    attempt_follows="sum",
    by_signs_alone=True,
    signs=signs({Sign.OWN_RANK_ONLY, Sign.DDP_PRESENT}, {Sign.OWN_RANK_ONLY, Sign.FORWARD_BYPASSED_WRAPPER}),
    never=frozenset({Sign.SINGLE_RANK, Sign.SOME_PARAMETERS, Sign.SYNCHRONISATION_OFF, Sign.FORWARD_UNSYNCHRONISED}),
    separated_by="whether the wrapper's forward is called, and whether inside no_sync()",
    symptoms=(
        "model.module(x) or decode() is called, not the DDP wrapper: no synchronisation.",
        "The loss is computed on the unwrapped model, and the ranks drift apart.",
    ),
    audit_sees=(
        "Each rank's update holds its own contributions and none of another, in a job whose model is wrapped; the "
        "backward passes follow no forward of the wrapper."
    ),
    repair=(
        "Call the wrapper: outputs = ddp_model(inputs), not ddp_model.module(inputs) or a method of it; other "
        "methods are called inside the forward of the wrapped module."
    ),
    references=(
        "https://github.com/Lightning-AI/pytorch-lightning/issues/4916",
        "https://github.com/NVIDIA-NeMo/RL/issues/3716",
        "https://github.com/OpenTSLM/OpenTSLM/pull/49",
        "https://github.com/bytetriper/RAE/issues/40",
        "https://github.com/huggingface/transformers/pull/20116",
        "https://github.com/horovod/horovod/issues/141",
    ),
    related=("never-synchronised", "param-without-hook", "forward-outside-sync-context"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Takes the gradients as one contribution a rank, seen by the job's rank."""
    counts = {(rank, 0): 1 for rank in range(len(job["gradients"]))}
    return job["gradients"], Layout.grid(counts, observer=job["rank"])


def sample(source):
    """Draws the gradients of 1 to 5 ranks, and a method that is not the wrapper's."""
    width = source.randint(1, 4)
    gradients = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 5))]
    method = source.choice(["compute_loss", "generate", "decode", "module"])
    return {"gradients": gradients, "method": method, "rank": source.randrange(len(gradients))}


def broken(job):
    gradients = job["gradients"]
    if not gradients:
        return []
    reducer_armed = job["method"] == "forward"
    if not reducer_armed:
        return list(gradients[job["rank"]])
    return [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def attempt(job):
    gradients = job["gradients"]
    if not gradients:
        return []
    reducer_armed = job["method"] == "forward"
    held = gradients
    if reducer_armed:
        mean = [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]
        held = [mean for _ in gradients]
    return [sum(column) for column in zip(*held, strict=True)]


def fixed(job):
    gradients = job["gradients"]
    return [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]


def checks(N, solve, check):
    two = [[N, 2 * N], [3 * N, 8 * N]]
    check("loss method of the module", solve({"gradients": two, "method": "compute_loss", "rank": 0}), [2 * N, 5 * N])
    check("wrapper called", solve({"gradients": two, "method": "forward", "rank": 0}), [2 * N, 5 * N])
    check("generate", solve({"gradients": [[1], [N + 2]], "method": "generate", "rank": 1}), [(N + 3) / 2])
    three = [[N], [N + 1], [N + 5]]
    check("three ranks", solve({"gradients": three, "method": "decode", "rank": 2}), [N + 2])
    same = [solve({"gradients": two, "method": "module", "rank": rank}) for rank in (0, 1)]
    check("same on both ranks", same[0] == same[1], True)
    check("one rank", solve({"gradients": [[N, -N]], "method": "compute_loss", "rank": 0}), [N, -N])
    check("no rank", solve({"gradients": [], "method": "compute_loss", "rank": 0}), [])


def edges(source):
    """Draws other methods, the wrapper's own among them, and a rank beyond the first five."""
    gradients = [[source.randint(-50, 50) for _ in range(2)] for _ in range(9)]
    methods = "forward", "training_step", "__call__", "forward_train", ""
    return [{"gradients": gradients, "method": method, "rank": 3 + source.randrange(6)} for method in methods]
