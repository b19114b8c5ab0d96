"""What a clip says of a GradScaler whose factor the gradients still hold."""

from __future__ import annotations

import pytest

from audit.capture.watched import Seen, run
from failuremap.audit import trace

pytestmark = pytest.mark.torch

SOURCE = """
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled={enabled})
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(torch.randn(5, 4)), torch.arange(5) % 3)).backward()
        {unscale}
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("how", "scales"),
    [
        ({"enabled": True, "unscale": "pass"}, [256.0, 256.0]),
        ({"enabled": True, "unscale": "scaler.unscale_(optimizer)"}, [None, None]),
        ({"enabled": False, "unscale": "pass"}, [None, None]),
    ],
    ids=["not divided yet", "divided before the clip", "a scaler that does nothing"],
)
def test_a_clip_has_the_factor_that_is_left(job_server, tmp_path, how, scales):
    assert run(job_server, tmp_path, SOURCE.format(**how)).ok

    (seen,) = [Seen(opened) for opened in trace.read_folder(tmp_path / "trace")]

    assert [clip.fields.get("scale") for clip in seen.of("clip")] == scales
    assert seen.errors == []
