"""The bits of a sum depend on where a value lies in its bucket, and on the order of the ranks."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from fractions import Fraction

from failuremap.catalogue.mechanism import Clause, Mechanism

MECHANISM = Mechanism(
    number=13,
    slug="order-depends-on-buckets",
    title="The bits of a sum depend on where a value lies in its bucket",
    group="precision",
    abstract="A ring starts each chunk of a bucket at another rank, and floating-point addition is not associative.",
    root_cause=(
        "The order in which the ranks are added follows from the place in the buffer, so the size of buckets, the "
        "order of parameters and the number of ranks change the last bits of a result."
    ),
    failure=(
        "Ranks hold 2^53, 0.5 and -2^53 for the same parameter. A sum that starts at the first or second rank is 0, "
        "one that starts at the third is 0.5: three parameters with one gradient get two updates."
    ),
    failed_approach=(
        "Adding the ranks in a fixed order takes the bucket out of the result. It still depends on the numbering of "
        "the ranks and on how many there are, and it is still not the number nearest to the sum."
    ),
    relevance=(
        "The numbers are within rounding, so no loss curve shows it; but a change of the bucket size breaks every "
        "bitwise comparison: resumed runs, one layout against another, a search for a real fault. Reported of NCCL "
        "and RCCL, whose algorithm also changes with the message's size."
    ),
    limitations="The ring's chunks alone; trees, channels and the order of arrival make further orders.",
    contract=(
        "Given the parts that the ranks hold of a stretch of a bucket, return the sum of the ranks for each element, "
        "correctly rounded: the same at any place and for any order of the ranks."
    ),
    domain=(
        "bucket: a dictionary of parts, one list of finite numbers for each rank, all of one length; offset, where "
        "the stretch starts in the bucket; and size, the bucket's length, at least offset and stretch together."
    ),
    clauses=(
        Clause(
            "correctly-rounded",
            "numeric",
            "Each element is the float nearest to the exact sum.",
            ("large numbers that cancel", "two halves of the last bit"),
        ),
        Clause(
            "any-place",
            "algebraic",
            "The place in the bucket does not matter.",
            ("one gradient in three places", "the middle of a bucket"),
        ),
        Clause("any-order", "algebraic", "The order of the ranks does not matter.", ("another order of the ranks",)),
        Clause(
            "edges",
            "boundary",
            "Where no addition rounds, on one rank and for an empty stretch, any order gives the sum.",
            ("whole numbers", "one rank", "an empty stretch"),
        ),
    ),
    promised="",
    law="Each element is the float nearest to the exact sum, at any offset and for any order of the ranks.",
    separated_by="two ranks, whose sum has one order, or numbers that no addition rounds",
    symptoms=("Results change in the last bits with bucket size or order: not reproducible.",),
    audit_sees="Right coefficients and a residual of rounding size: the job is called right.",
    audit_blind="It moves the last bits of the update, which are below what any coefficient can show.",
    repair=(
        "Pin what decides the order (the bucket size: DistributedDataParallel(model, bucket_cap_mb=25); the ranks; "
        "NCCL_ALGO), or make it irrelevant: gather the parts and add them in float64, "
        "dist.all_gather(parts, bucket); bucket.copy_(torch.stack(parts).sum(0, dtype=torch.float64)), which is "
        "rounded once and, for float32 of like size, exact before that."
    ),
    references=(
        "https://github.com/NVIDIA/nccl/issues/157",
        "https://github.com/ROCm/rocm-systems/issues/11661",
        "https://github.com/vllm-project/vllm/pull/57042",
    ),
    related=("reduced-precision-sum", "misaligned-shards"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(bucket):
    parts = bucket["parts"]
    update = []
    for place in range(len(parts[0])):
        first = (bucket["offset"] + place) * len(parts) // bucket["size"]
        total = 0.0
        for turn in range(len(parts)):
            total += parts[(first + turn) % len(parts)][place]
        update.append(total)
    return update


def attempt(bucket):
    update = [0.0] * len(bucket["parts"][0])
    for part in bucket["parts"]:
        update = [total + value for total, value in zip(update, part, strict=True)]
    return update


def fixed(bucket):
    import math

    return [math.fsum(column) for column in zip(*bucket["parts"], strict=True)]


def checks(N, solve, check):
    def summed(offset, size, *parts):
        return solve({"parts": list(parts), "offset": offset, "size": size})

    big, small = 2.0**53, N - 0.5
    last_bit = 2.0**-52
    check("large numbers that cancel", summed(0, 3, [big], [small], [-big]), [small])
    check("two halves of the last bit", summed(0, N, [1.0], [last_bit / 2], [last_bit / 2]), [1 + last_bit])
    check("one gradient in three places", summed(0, 3, [big] * 3, [small] * 3, [-big] * 3), [small] * 3)
    check("the middle of a bucket", summed(N, 3 * N, [big], [small], [-big]), [small])
    check("another order of the ranks", summed(0, N, [small], [big], [-big]), [small])
    check("whole numbers", summed(0, 2, [N, 2], [3, -N], [5, N]), [N + 8, 2])
    check("one rank", summed(0, 2, [small, -small]), [small, -small])
    check("an empty stretch", summed(0, N, [], []), [])


def sample(source):
    """Draws numbers of very different sizes, some of which cancel."""
    width, rank_count = source.randint(1, 4), source.randint(1, 5)

    def value():
        return source.choice([-1, 1]) * (source.random() if source.random() < 0.6 else 2.0 ** source.randint(20, 53))

    parts = [[value() for _ in range(width)] for _ in range(rank_count)]
    offset = source.randint(0, 4)
    return {"parts": parts, "offset": offset, "size": offset + width + source.randint(0, 4)}


def law(bucket, solve):
    """Rounds the exact sum once, and compares other places and orders with it."""
    right = [float(sum(map(Fraction, column))) for column in zip(*bucket["parts"], strict=True)]
    moved = {**bucket, "offset": bucket["offset"] + 1, "size": bucket["size"] + 3}
    turned = {**bucket, "parts": bucket["parts"][::-1]}
    return all(solve(given) == right for given in (bucket, moved, turned))


def edges(source):
    """Draws sums at, and beside, the middle of two floats, and sums that cancel to almost nothing."""
    half, tiny = 2.0**-53, 2.0**-106
    one = 1.0 + source.randint(0, 9) * 2.0**-52
    columns = [one, half, tiny], [one, half, -tiny], [one, half, 0.0], [1e300, one, -1e300], [5e-324, one, -one]
    made = [{"parts": [[value] for value in column], "offset": 0, "size": 1} for column in columns]
    joined = [list(row) for row in zip(*columns, strict=True)]
    made.append({"parts": [[one, 0.0], [-one, 0.0]], "offset": 1, "size": 4})
    return [*made, {"parts": joined, "offset": 3, "size": 9}, {"parts": joined[::-1], "offset": 0, "size": 5}]
