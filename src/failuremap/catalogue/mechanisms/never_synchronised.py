"""Gradients are never reduced: each rank trains a model of its own."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="never-synchronised",
    title="Gradients are never reduced between the ranks",
    abstract="Each rank steps on its own gradient: R models drift apart, and one of them is saved.",
    contract="Given one gradient for each rank, return their mean on every rank.",
    root_cause="The loop has no reduction at all, or no_sync() is on in every micro-batch.",
    followed=("own_rank", "own_rank_weighted"),
    by_signs_alone=True,
    signs=signs(
        {Sign.OWN_RANK_ONLY, Sign.NO_DDP},
        {Sign.OWN_RANK_ONLY, Sign.NO_COLLECTIVE},
        {Sign.OWN_RANK_ONLY, Sign.SYNCHRONISATION_OFF},
    ),
    never=frozenset(
        {Sign.SINGLE_RANK, Sign.SOME_PARAMETERS, Sign.FORWARD_BYPASSED_WRAPPER, Sign.FORWARD_UNSYNCHRONISED}
    ),
    separated_by="whether the model is wrapped, and whether the wrapper's forward is called outside no_sync()",
    repair=(
        "Wrap and call the wrapper: model = DistributedDataParallel(model); run the window's last forward and "
        "backward outside no_sync(). Without DDP, start from equal weights, and before each optimizer.step(): for p "
        "in model.parameters(): dist.all_reduce(p.grad); p.grad /= dist.get_world_size()"
    ),
    references=(
        "https://github.com/HenryNdubuaku/nanodl/issues/12",
        "https://github.com/NVIDIA/TransformerEngine/issues/441",
    ),
)
