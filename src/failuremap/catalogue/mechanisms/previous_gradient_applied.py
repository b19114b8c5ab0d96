"""The update is the gradient of the step before."""

from failuremap.catalogue.mechanism import Mechanism, signs
from failuremap.catalogue.signs import Sign

MECHANISM = Mechanism(
    slug="previous-gradient-applied",
    title="The update is the gradient of the step before",
    abstract="Each step applies what the last window computed; the newest gradient always comes one step late.",
    contract="Each update is that of the window just computed.",
    root_cause="The step runs before the backward of its window, or reads a buffer that is filled after it.",
    by_signs_alone=True,
    signs=signs({Sign.PREVIOUS_UPDATE_ONLY}),
    separated_by="whether the new contributions are in the update: they are not here",
    repair=(
        "Keep the order in every window: loss.backward(); optimizer.step(); optimizer.zero_grad(set_to_none=True). "
        "Fill a gradient buffer of your own after the backward and before the step."
    ),
    references=(),
)
