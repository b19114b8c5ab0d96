"""A parameter carries no reduction hook: own rank only on it, 1/R on the rest."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="param-without-hook",
    title="A parameter carries no reduction hook",
    abstract="Some parameters are never reduced and drift apart, while all others are right.",
    contract="Given each rank's gradient of every trainable parameter, return the mean for every one of them.",
    root_cause="The parameter was added, replaced or moved after the wrapping, is ignored by it, or lives outside it.",
    followed=("own_rank", "own_rank_weighted"),
    by_signs_alone=True,
    signs=signs({Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS}),
    never=frozenset({Sign.SINGLE_RANK}),
    separated_by="the parameters concerned: some here, all where nothing is reduced",
    repair=(
        "Wrap last, when no parameter will be added, replaced or moved any more, and wrap one module whose forward "
        "uses them all: model = DistributedDataParallel(Everything(backbone, head)); loss = loss_of(model(inputs)). "
        "A parameter that stays outside: broadcast it once, then before each step dist.all_reduce(p.grad); p.grad "
        "/= dist.get_world_size()"
    ),
    references=(
        "https://github.com/pytorch/pytorch/issues/12603",
        "https://github.com/pytorch/pytorch/issues/104336",
        "https://github.com/kohya-ss/sd-scripts/pull/989",
    ),
)
