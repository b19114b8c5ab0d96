"""Small contributions vanish in a sum whose running total has few bits."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism

MECHANISM = Mechanism(
    number=12,
    slug="reduced-precision-sum",
    title="Small contributions vanish in a low-precision sum",
    group="precision",
    abstract="Contributions are added in bfloat16 or float16, and what is small beside the total is rounded away.",
    root_cause=(
        "Every addition rounds to the type of the total: with the 8 significant bits of bfloat16, a contribution "
        "below 1/512 of the total changes nothing at all."
    ),
    failure=(
        "Ones are added in bfloat16. The total reaches 256 and stays there: 256 + 1 lies between 256 and 258, and is "
        "rounded down. Of 512 contributions, half are missing."
    ),
    failed_approach=(
        "Adding in the order of size, small ones first, saves what vanished beside one large number. Contributions of "
        "like size still meet a total that has outgrown them, and those that cancel are still rounded in between."
    ),
    relevance=(
        "The loss grows with the number of ranks and micro-batches, so it shows at scale alone. Met with bfloat16 "
        "reduction in FSDP on hundreds of GPUs, and in Megatron, where a fallback rounded although float32 was asked "
        "for; float16 also overflows, if the division comes after the sum."
    ),
    limitations=(
        "One running total, as in a ring or an accumulator; a tree loses less. Overflow, subnormal numbers and "
        "stochastic rounding are left out."
    ),
    contract=(
        "Given vectors of bfloat16 numbers, return their elementwise sum, rounded to bfloat16 once; empty input "
        "returns []."
    ),
    domain=(
        "vectors: a list of lists of one length; each value has at most 8 significant bits, and is a multiple of 1/4 "
        "below 2^20 in size, so that float64 holds every sum exactly."
    ),
    clauses=(
        Clause(
            "rounded-once",
            "numeric",
            "The result is the bfloat16 nearest to the exact sum.",
            ("ones beside a large number", "many of like size", "large numbers that cancel"),
        ),
        Clause("ties", "numeric", "A sum half way between two numbers goes to the even one.", ("half way",)),
        Clause(
            "any-order",
            "algebraic",
            "The order of the vectors does not matter.",
            ("the large number last", "few of like size"),
        ),
        Clause(
            "edges", "boundary", "One vector is returned as it is, and none gives [].", ("one vector", "no vectors")
        ),
    ),
    promised="",
    law="Each element is the bfloat16 nearest to the exact sum, ties to even, in whichever order the vectors come.",
    separated_by="the same sum in float32",
    symptoms=("The reduction rounds in bf16 or fp16: unstable at many ranks only.",),
    audit_sees="Right coefficients, and a residual as large as the rounding of the small type, evenly spread.",
    audit_blind="No coefficient is wrong: what rounding takes away is small in one step, and unlike from step to step.",
    repair=(
        "Add in float32, and round at the end: with FSDP2, MixedPrecisionPolicy(param_dtype=torch.bfloat16, "
        "reduce_dtype=torch.float32); in a loop of your own, accumulate into "
        "torch.zeros_like(parameter, dtype=torch.float32). In float16, divide before the sum."
    ),
    references=(
        "https://github.com/pytorch/pytorch/issues/106395",
        "https://github.com/pytorch/pytorch/pull/61814",
        "https://github.com/NVIDIA/Megatron-LM/pull/6624",
    ),
    related=("order-depends-on-buckets", "count-overflows", "residual-bookkeeping"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(vectors):
    import math

    def to_bfloat16(value):
        fraction, exponent = math.frexp(value)
        return math.ldexp(round(fraction * 256), exponent - 8)

    totals = [0.0] * len(vectors[0]) if vectors else []
    for vector in vectors:
        totals = [to_bfloat16(total + value) for total, value in zip(totals, vector, strict=True)]
    return totals


def attempt(vectors):
    import math

    def to_bfloat16(value):
        fraction, exponent = math.frexp(value)
        return math.ldexp(round(fraction * 256), exponent - 8)

    totals = []
    for column in zip(*vectors, strict=True):
        total = 0.0
        for value in sorted(column, key=abs):
            total = to_bfloat16(total + value)
        totals.append(total)
    return totals


def fixed(vectors):
    import math

    def to_bfloat16(value):
        fraction, exponent = math.frexp(value)
        return math.ldexp(round(fraction * 256), exponent - 8)

    return [to_bfloat16(math.fsum(column)) for column in zip(*vectors, strict=True)]


def checks(N, solve, check):
    check("ones beside a large number", solve([[256 * N]] + [[1]] * 8), [256 * N + 8])
    check("many of like size", solve([[N, -N]] * 512), [512 * N, -512 * N])
    check("large numbers that cancel", solve([[256 * N], [0.5], [-256 * N]]), [0.5])
    check("half way", solve([[256], [2], [1]]), [260])
    check("the large number last", solve([[1]] * 8 + [[256 * N]]), [256 * N + 8])
    check("few of like size", solve([[N, 2], [3, N], [N, 0.25]]), [2 * N + 3, N + 2.25])
    check("one vector", solve([[N, -0.25]]), [N, -0.25])
    check("no vectors", solve([]), [])


def sample(source):
    """Draws vectors of one width, most of them small beside a few large ones."""
    width = source.randint(1, 3)

    def value():
        return source.randint(-255, 255) * source.choice([0.25, 0.25, 1, 64, 1024])

    return [[value() for _ in range(width)] for _ in range(source.randint(1, 12))]


def law(vectors, solve):
    """Rounds the exact sum to a multiple of its last bit, and turns the order round."""

    def nearest(exact):
        if not exact:
            return exact
        step = Fraction(1, 2**20)
        while abs(exact) >= 256 * step:
            step *= 2
        return round(exact / step) * step

    right = [nearest(sum(map(Fraction, column))) for column in zip(*vectors, strict=True)]
    return [solve(order) for order in (vectors, vectors[::-1])] == [right, right]


def edges(source):
    """Draws sums of millions, ties that go up and down, and sums just beside a tie."""
    large = [[255 * 4096, -source.randint(128, 255) * 4096] for _ in range(20)]
    odd = 2 * source.randint(64, 127) + 1
    beyond = (2.0**16, 0.25), (3 * 2.0**16, -0.25)
    ties = [[[256 * sign], [odd * sign], [sign * extra]] for sign in (1, -1) for extra in (0, 0.25, -0.25)]
    # a tie that float32 makes of a sum of millions and a quarter
    sums = [[[2.0**19 * sign]] * 32 + [[tie * sign], [beside * sign]] for tie, beside in beyond for sign in (1, -1)]
    return [large, *ties, *sums, [[odd * 1024], [512], [0.25]], [[odd * 1024], [512]], [[0, 0]] * 3]
