"""Replicas start from different parameters: one update moves R different models."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="replicas-start-different",
    title="Replicas start from different parameters",
    abstract="The gradients are averaged over models that were never the same.",
    contract="Before the first step all replicas hold the same parameters.",
    root_cause="Each rank initialises by its own seed, and nothing broadcasts the parameters of one of them.",
    by_signs_alone=True,
    signs=signs({Sign.REPLICAS_DIFFER_AT_START}),
    never=frozenset({Sign.SINGLE_RANK, Sign.REPLICAS_DIFFER_LATER}),
    separated_by="the parameters before the first step",
    repair=(
        "Broadcast once, before training: for t in [*model.parameters(), *model.buffers()]: dist.broadcast(t.data, "
        "src=0). DistributedDataParallel(model) does it when it wraps."
    ),
    references=("https://pytorch.org/docs/stable/notes/ddp.html",),
)
