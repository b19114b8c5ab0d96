"""Jobs that do what jobs seldom do end as they do without the audit, and nothing that was not seen is called right."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.harness import HERE, JobServer
from audit.test_injected import weights
from failuremap.audit import diagnose

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RIGHT = "Every example weighs the same: the update is the mean over all examples."
BESIDE = "were started by ranks 0, 1, such as workers of a data loader, trained something of their own"
# by script and what happens in it: the outcome, and what the sentence, a reason or a note says
CHANGES = {
    "parameter-replaced-untold": ("cannot tell", "2.weight was replaced during training, and no optimizer steps on"),
    "layer-replaced-untold": ("cannot tell", "4.bias, 4.weight were replaced during training, and no optimizer steps"),
    "adapters-added": ("right", RIGHT),
    "shape-changed": ("not measured", "the gradient of parameter 4.bias is a Tensor of shape (5,), and it was"),
    "copied": ("right", RIGHT),
    "loaded": ("right", RIGHT),
    "elsewhere": ("right", RIGHT),
    "child-trains": ("right", f"2 processes that {BESIDE}"),
    "workers-train": ("right", f"4 processes that {BESIDE}"),
    "leaves-saved": ("right", RIGHT),
    "other-default-device": ("right", RIGHT),
}
GRADIENTS = {
    "gradients-removed": ("right", "the gradient of 1 parameter was removed between backward and a step: 0.weight"),
    "hook-raises": ("right", "a whole window whose gradients were cleared, without a step on them"),
    "functional-gradients": ("not measured", "it was made by hand or by torch.func"),
    "backward-twice": ("cannot tell", "one batch goes backward 2 times in a window"),
    "gradient-penalty": ("not measured", "a term of the loss was not seen"),
    "handed-back": ("right", RIGHT),
    "handed-back-last": ("wrong", "Only the last of"),
}


@pytest.mark.parametrize("name", [*CHANGES, *GRADIENTS])
def test_the_job_ends_as_without_the_audit_and_the_verdict_says_what_was_seen(
    job_server: JobServer, tmp_path: Path, name: str
) -> None:
    script = str(HERE / ("odd_changes.py" if name in CHANGES else "odd_gradients.py"))
    plain = job_server.run_job(script, [name], 2)

    audited = job_server.run_job(script, [name], 2, tmp_path)

    assert plain.ok, plain.output[-2000:]
    assert (weights(audited), audited.ok) == (weights(plain), True), audited.output[-3000:]
    verdict = diagnose(tmp_path, unit="example")
    outcome, said = (CHANGES | GRADIENTS)[name]
    assert verdict.outcome == outcome, f"{verdict.sentence} {verdict.reasons}"
    assert said in "\n".join([verdict.sentence, *verdict.reasons, *verdict.notes])
