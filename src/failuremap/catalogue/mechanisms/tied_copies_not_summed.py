"""Tied parameter copies are not summed across the stages that hold them."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=56,
    slug="tied-copies-not-summed",
    title="Tied parameter copies are not summed across stages",
    group="replica-agreement",
    abstract="One weight lives as a copy on several pipeline stages, and each copy steps on its own gradient.",
    root_cause="Tying is a shared tensor in one process; split over stages it becomes copies that no one adds up.",
    failure=(
        "An embedding on the first stage gets 1 and its copy in the output head on the last stage gets 6. One process "
        "would step on 7; here the copies step on 1 and on 6, and from then on are two different matrices."
    ),
    failed_approach=(
        "The copies are averaged, as replicas over data-parallel ranks are. They agree again, at half the step: the "
        "copies' gradients are parts of one sum, not estimates of one mean."
    ),
    relevance=(
        "The pipelined model is no longer the one that a single device trains, and exporting it keeps one of the "
        "copies. Megatron-LM sums over an embedding group for this; with gradients that data-parallel ranks had "
        "already scattered, that sum added shards which did not belong together."
    ),
    limitations=(
        "Each stage has one data-parallel rank. Where there are several, the sum over the stages has to run on the "
        "same elements of each, before they are scattered or behind a gather."
    ),
    contract=(
        "Given the gradient of each copy of one tied parameter, zeros where a stage did not use its own, and a stage: "
        "return what this stage's copy steps on, the sum over all copies; no copy gives []."
    ),
    domain=(
        "job: a dict with `copies`, one list of finite numbers for each stage that holds a copy, all of one length; "
        "`stage`, an index of `copies`."
    ),
    clauses=(
        Clause(
            "sum",
            "algebraic",
            "Every copy steps on the sum of all copies' gradients.",
            ("embedding and head", "head's copy", "three copies"),
        ),
        Clause("agreement", "algebraic", "All copies step on the same.", ("same on both copies",)),
        Clause("unused-copy", "boundary", "A copy without a gradient takes the other's.", ("unused copy",)),
        Clause("one-copy", "boundary", "A parameter on one stage keeps its gradient.", ("one copy",)),
        Clause("no-copy", "boundary", "Without a copy there is no update: [].", ("no copy",)),
    ),
    promised="sum",
    followed=("own_rank",),
    attempt_follows="mean",
    by_signs_alone=True,
    signs=signs({Sign.COPIES_APART}),
    separated_by="whether the parameters of the two stages are copies of one weight, which only the model's code says",
    symptoms=("Tied embeddings on two pipeline stages or devices train apart.",),
    audit_sees=(
        "Two parameters of different stages that begin alike, and step each on its own contributions. It is named "
        "where the script copies the one to the other, or several modules held it in one process and nothing else "
        "begins alike. Where neither holds and one of them embeds, it cannot tell. Copies inside one process look like "
        "a model whose weights are not tied."
    ),
    repair=(
        "Stages of one process share the tensor: last.weight = first.weight. Stages of several form a group, start "
        "from equal copies, dist.broadcast(weight.data, src=first_stage, group=tied), and add up between the last "
        "backward and each step: dist.all_reduce(weight.grad, group=tied), a sum without a division."
    ),
    references=(
        "https://github.com/uw-syfi/piper/issues/13",
        "https://github.com/uw-syfi/piper/pull/25",
        "https://github.com/NVIDIA/Megatron-LM/issues/844",
        "https://github.com/NVIDIA/Megatron-LM/pull/6500",
    ),
    related=("partials-not-reduced", "partials-averaged", "replicas-start-different", "misaligned-shards"),
    published="2026-11-30",
    modified="2026-11-30",
)


def contributions(job):
    """Takes the copies as one contribution a stage, seen by the job's stage."""
    cells = {(stage, 0): 1 for stage in range(len(job["copies"]))}
    return job["copies"], Layout.grid(cells, observer=job["stage"])


def sample(source):
    """Draws the gradients of 1 to 4 copies."""
    width = source.randint(1, 4)
    copies = [[source.randint(-50, 50) for _ in range(width)] for _ in range(source.randint(1, 4))]
    return {"copies": copies, "stage": source.randrange(len(copies))}


def broken(job):
    return list(job["copies"][job["stage"]]) if job["copies"] else []


def attempt(job):
    copies = job["copies"]
    return [sum(column) / len(copies) for column in zip(*copies, strict=True)]


def fixed(job):
    return [sum(column) for column in zip(*job["copies"], strict=True)]


def checks(N, solve, check):
    two = [[N, 0], [6 * N, 2]]
    check("embedding and head", solve({"copies": two, "stage": 0}), [7 * N, 2])
    check("head's copy", solve({"copies": two, "stage": 1}), [7 * N, 2])
    check("three copies", solve({"copies": [[N], [N + 1], [N + 2]], "stage": 1}), [3 * N + 3])
    ends = [solve({"copies": two, "stage": stage}) for stage in (0, 1)]
    check("same on both copies", ends[0] == ends[1], True)
    check("unused copy", solve({"copies": [[0, 0], [N, 2 * N]], "stage": 0}), [N, 2 * N])
    check("one copy", solve({"copies": [[N, -N]], "stage": 0}), [N, -N])
    check("no copy", solve({"copies": [], "stage": 0}), [])
