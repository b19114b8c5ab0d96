"""The synchronisation switch is set after the forward pass, which decides."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="forward-outside-sync-context",
    title="The synchronisation switch is set after the forward pass",
    abstract="DDP arms its reducer in forward; a forward under no_sync() leaves its backward unsynchronised.",
    contract="For each micro-batch, forward and backward run under the same switch; the forward's decides.",
    root_cause="Only one of the two passes stands inside no_sync().",
    by_signs_alone=True,
    signs=signs(
        {Sign.FORWARD_UNSYNCHRONISED, Sign.OWN_RANK_ONLY},
        {Sign.FORWARD_UNSYNCHRONISED, Sign.UNSYNCHRONISED_TAIL},
        {Sign.FORWARD_UNSYNCHRONISED, Sign.REPLICAS_DIFFER},
    ),
    never=frozenset({Sign.SINGLE_RANK, Sign.FORWARD_BYPASSED_WRAPPER}),
    separated_by="whether backward runs inside no_sync() as well",
    repair=(
        "Put both passes under one switch: with nullcontext() if last else model.no_sync(): loss = "
        "loss_of(model(inputs)); loss.backward(). last: true in the micro-batch before optimizer.step()"
    ),
    references=(
        "https://github.com/baidu-baige/LoongForge/pull/163",
        "https://github.com/facebookresearch/ClassyVision/pull/706",
    ),
)
