"""The backward pass never reaches the reducer: the wrapper is there and is not called."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="reducer-bypassed",
    title="The backward pass never reaches the reducer",
    abstract="The model is wrapped, but its gradients never pass the wrapper: each rank trains a model of its own.",
    contract="Given one gradient for each rank, return their mean on every rank.",
    root_cause="The loop calls model.module or a method of it, so the wrapper's forward never arms the reducer.",
    followed=("own_rank", "own_rank_weighted"),
    by_signs_alone=True,
    signs=signs({Sign.OWN_RANK_ONLY, Sign.DDP_PRESENT}, {Sign.OWN_RANK_ONLY, Sign.FORWARD_BYPASSED_WRAPPER}),
    never=frozenset({Sign.SINGLE_RANK, Sign.SOME_PARAMETERS, Sign.SYNCHRONISATION_OFF, Sign.FORWARD_UNSYNCHRONISED}),
    separated_by="whether the wrapper's forward is called, and whether inside no_sync()",
    repair=(
        "Call the wrapper: outputs = ddp_model(inputs), not ddp_model.module(inputs) or a method of it; other "
        "methods are called inside the forward of the wrapped module."
    ),
    references=(
        "https://github.com/Lightning-AI/pytorch-lightning/issues/4916",
        "https://github.com/NVIDIA-NeMo/RL/issues/3716",
        "https://github.com/OpenTSLM/OpenTSLM/pull/49",
    ),
)
