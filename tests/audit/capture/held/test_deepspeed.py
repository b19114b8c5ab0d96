"""What of DeepSpeed's optimizers is not understood is said in a sentence; what its engine divides is divided."""

from __future__ import annotations

import json

import pytest

from audit.capture.sharded_job import END, START
from audit.capture.watched import run

pytestmark = pytest.mark.torch

# an optimizer with the attributes of DeepSpeed's, as far as capture reads them, and what other versions may have
OTHERS = """
import json
from failuremap.audit import capture
from failuremap.audit.capture.held.deepspeed import _zero_1_and_2, on_made
recorder, parameters = capture.current, list(model.parameters())
class DeepSpeedZeroOptimizer:
    clip_grad, averaged_gradients, all_grad_tensors = 0.0, {}, {}
    def __init__(self, **more):
        sizes = [parameter.numel() for parameter in parameters]
        part = torch.cat([parameter.detach().reshape(-1) for parameter in parameters]).requires_grad_()
        self.single_partition_of_fp32_groups, self.round_robin_bit16_groups = [part], [parameters]
        self.round_robin_bit16_offsets = [[sum(sizes[:i]) for i in range(len(sizes))]]
        self.real_dp_process_group = [None]
        self.optimizer = torch.optim.SGD([part], lr=0.1)
        self.__dict__.update(more)
class Newer(DeepSpeedZeroOptimizer):
    pass
def told(made):
    on_made(recorder, made, DeepSpeedZeroOptimizer, _zero_1_and_2)
    return recorder.stand_ins.unread(made.optimizer)
def without(name):
    made = DeepSpeedZeroOptimizer()
    del made.__dict__[name]
    return told(made)
shifted = [torch.cat([parameter.detach().reshape(-1) for parameter in parameters]).roll(1).requires_grad_()]
found = {
    "known": told(DeepSpeedZeroOptimizer()),
    "a subclass": told(Newer()),
    "offload": told(DeepSpeedZeroOptimizer(cpu_offload=True)),
    "no groups": without("round_robin_bit16_groups"),
    "no offsets": without("round_robin_bit16_offsets"),
    "moved by one": told(DeepSpeedZeroOptimizer(single_partition_of_fp32_groups=shifted)),
    "secondary": told(DeepSpeedZeroOptimizer(zero_hpz_partition_size=2)),
}
print("found", json.dumps(found))
"""


def test_each_kind_that_is_not_understood_has_a_sentence_and_a_known_one_has_none(job_server, tmp_path):
    result = run(job_server, tmp_path, START + OTHERS + END)

    (line,) = [line for line in result.output.splitlines() if line.startswith("found")]
    found = json.loads(line.removeprefix("found"))
    assert {form: why.removeprefix("DeepSpeedZeroOptimizer with ") for form, why in found.items()} == {
        "known": "",
        "a subclass": "Newer with methods of its own",
        "offload": "offload",
        "no groups": "attributes that are not known (AttributeError: 'DeepSpeedZeroOptimizer' object has no attribute "
        "'round_robin_bit16_groups')",
        "no offsets": "",
        "moved by one": "other numbers in its partitions than in the parameters",
        "secondary": "secondary partitions",
    }


@pytest.mark.parametrize(
    ("outputs", "steps", "scale", "unseen"),
    [(1, 4.0, 0.5, []), (1, 1.0, 2.0, []), (3, 4.0, 0.5, ["DeepSpeedEngine with several outputs"])],
    ids=["one output", "no accumulation", "three outputs"],
)
def test_what_reaches_a_loss_is_divided_as_the_engine_divides_it_behind_its_outputs(
    outputs, steps, scale, unseen, tmp_path
):
    from failuremap.audit.capture.held.deepspeed_engine import _Divided, on_divided
    from failuremap.audit.capture.recorder import Recorder
    from failuremap.audit.capture.watching import Backward

    recorder, divided = Recorder(tmp_path, "run", None), _Divided()
    recorder.backward = Backward(0, "backward", {}, [], losses=[{"scale": 2.0, "count": 3}])
    for _ in range(outputs):
        on_divided(recorder, divided, steps)

    assert (recorder.backward.losses, recorder.backward.unseen) == ([{"scale": scale, "count": 3}], unseen)
    assert recorder.errors == []
