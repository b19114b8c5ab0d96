"""The synchronised micro-batch is not the last: what follows it stays local."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="sync-on-wrong-microbatch",
    title="The synchronised micro-batch is not the stepping one",
    abstract="The micro-batches after the synchronised one stay on their rank, and the replicas drift apart.",
    contract="Given the parts of a window on each rank, return the mean of all of them on every rank.",
    root_cause="The switch of no_sync() is off by one, or toggled on another count than the optimizer's.",
    by_signs_alone=True,
    signs=signs({Sign.UNSYNCHRONISED_TAIL}),
    never=frozenset({Sign.SINGLE_RANK, Sign.SINGLE_MICRO_BATCH}),
    separated_by="whether the forward of the last micro-batch runs inside no_sync()",
    repair=(
        "Synchronise the last micro-batch: with nullcontext() if last else model.no_sync(): loss = "
        "loss_of(model(inputs)); loss.backward(). last: true in the micro-batch before optimizer.step(), also in a "
        "short last window"
    ),
    references=(
        "https://github.com/huggingface/picotron/pull/5",
        "https://github.com/pytorch/pytorch/pull/125484",
    ),
)
