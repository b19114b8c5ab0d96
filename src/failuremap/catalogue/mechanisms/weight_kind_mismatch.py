"""Token means are weighted by their share of the sequences: s/S where n/N is right."""
# mypy: disable-error-code="no-untyped-def"

from failuremap.catalogue.mechanism import Clause, Mechanism, signs
from failuremap.catalogue.signs import Sign
from failuremap.rules import Layout

MECHANISM = Mechanism(
    number=8,
    slug="weight-kind-mismatch",
    title="Token means are weighted by sequence counts",
    group="counts-across-ranks",
    abstract="Parts are means over one kind of unit, and are put together with the counts of another.",
    root_cause="The weight must count what the mean divides by: a share of the sequences suits means over sequences.",
    failure=(
        "A part of two sequences with 1 token each and one of a single sequence with 6 tokens: the first gets 2/3 of "
        "the update for 2 of 8 tokens, and one of its tokens weighs six times one of the other's."
    ),
    failed_approach=(
        "Weighting by padded size, sequences times the longest of them, counts tokens at last, and the padding with "
        "them: it is right only where all sequences of a part are equally long."
    ),
    relevance=(
        "Batching by token count makes parts of few long and of many short sequences, for which the two weights "
        "differ most. Met in verl, whose token-mean policy loss was accumulated by the share of samples."
    ),
    limitations="Lengths are those of the tokens that the loss counts; a shift of labels or a mask changes them.",
    contract=(
        "Given [token_mean, lengths] parts, return the mean over all tokens; a part without tokens contributes "
        "nothing, and a total of zero returns []."
    ),
    domain=(
        "parts: a list of (token_mean, lengths) pairs; token_mean a list of finite numbers, all of one width; lengths "
        "the number of tokens of each of the part's sequences, integers of 0 or more."
    ),
    clauses=(
        Clause(
            "weighs-by-tokens",
            "algebraic",
            "Each part weighs its tokens over all tokens.",
            ("short and long sequences", "lengths differ inside a part", "lengths vary"),
        ),
        Clause(
            "same-shape",
            "algebraic",
            "Parts with equally many tokens weigh the same, however these are cut into sequences.",
            ("like shapes", "many short against one long"),
        ),
        Clause("empty-part", "boundary", "A part without tokens contributes nothing.", ("a part without tokens",)),
        Clause("single", "boundary", "A single part is returned as it is.", ("a single part",)),
        Clause("no-tokens", "boundary", "Without any token there is no update: [].", ("no tokens", "no parts")),
    ),
    by_signs_alone=True,
    signs=signs({Sign.WEIGHED_BY_SEQUENCES}),
    separated_by="sequences of one length: then both counts give the same weights",
    symptoms=(
        "Sequences weigh the same where tokens should, or the other way round: a sample share with a token mean.",
    ),
    audit_sees=(
        "Tokens that weigh the same inside a part and differ between parts, in inverse proportion to the mean length "
        "of the parts' sequences. These are counted where the loss gets its targets as a table, or as a view of one."
    ),
    repair=(
        "Weight a mean over tokens by tokens: weight = (labels != -100).sum() / window_token_count, in place of "
        "len(labels) / window_sequence_count; or divide summed losses by the window's count, and weight nothing."
    ),
    references=("https://github.com/verl-project/verl/pull/906",),
    related=("mean-of-microbatch-means", "replica-means-ignore-counts", "count-applied-twice"),
    published="2026-11-30",
    modified="2026-11-30",
)


def broken(parts):
    weights = [len(lengths) for _, lengths in parts]
    total = sum(weights)
    if not total:
        return []
    width = len(parts[0][0])
    return [
        sum(mean[j] * weight for (mean, _), weight in zip(parts, weights, strict=True)) / total for j in range(width)
    ]


def attempt(parts):
    weights = [len(lengths) * max(lengths, default=0) for _, lengths in parts]
    total = sum(weights)
    if not total:
        return []
    width = len(parts[0][0])
    return [
        sum(mean[j] * weight for (mean, _), weight in zip(parts, weights, strict=True)) / total for j in range(width)
    ]


def fixed(parts):
    parts = [(mean, sum(lengths)) for mean, lengths in parts if sum(lengths)]
    if not parts:
        return []
    total = sum(count for _, count in parts)
    width = len(parts[0][0])
    return [sum(mean[j] * count for mean, count in parts) / total for j in range(width)]


def checks(N, solve, check):
    check("short and long sequences", solve([([N, 4 * N], [1, 1]), ([5 * N, 0], [6])]), [4 * N, N])
    check("lengths differ inside a part", solve([([4 * N], [1, 3]), ([0], [2, 2])]), [2 * N])
    check("lengths vary", solve([([N], [N]), ([2 * N], [N, 1])]), [N * (3 * N + 2) / (2 * N + 1)])
    check("like shapes", solve([([N], [3, 3]), ([3 * N], [3, 3])]), [2 * N])
    check("many short against one long", solve([([2 * N], [1] * 4), ([4 * N], [4])]), [3 * N])
    check("a part without tokens", solve([([9 * N], [0, 0]), ([2 * N], [2])]), [2 * N])
    check("a single part", solve([([N, -N], [N, 5])]), [N, -N])
    check("no tokens", solve([([N], [0])]), [])
    check("no parts", solve([]), [])


def sample(source):
    """Draws parts of a few sequences, with lengths of 1 to 9."""
    width = source.randint(1, 4)
    return [
        (
            [source.randint(-50, 50) for _ in range(width)],
            [source.randint(1, 9) for _ in range(source.randint(1, 4))],
        )
        for _ in range(source.randint(1, 5))
    ]


def contributions(parts):
    """Takes each part as a mean over its tokens."""
    return [mean for mean, _ in parts], Layout.from_counts([sum(lengths) for _, lengths in parts])


def edges(source):
    """Draws parts without a sequence, with sequences of no token, and with long ones."""
    parts = [([source.randint(-50, 50) for _ in range(2)], lengths) for lengths in ([], [0, 7], [0], [10**9, 3], [1])]
    return [parts, parts[::-1], parts[:1], [parts[0], parts[2]]]
