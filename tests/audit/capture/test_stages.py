"""Where torch's stages are not as they were, nothing is watched; the jobs of tests/jobs/split run those that are."""

from __future__ import annotations

from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from failuremap.audit.capture.recorder import Recorder  # noqa: E402
from failuremap.audit.capture.stages import Stages, _watch  # noqa: E402


class _Stage:
    def __init__(self, index, module):
        self.stage_index, self.submod = index, module


def test_another_version_of_torch_is_left_alone(tmp_path):
    module = ModuleType("stage")
    module._PipelineStageBase = type("Base", (), {"backward_one_chunk": print})

    _watch(Recorder(tmp_path, "run", None), module)

    assert module._PipelineStageBase.backward_one_chunk is print


def test_a_parameter_is_of_the_stage_whose_module_holds_it(tmp_path):
    recorder, stages = Recorder(tmp_path, "run", None), Stages()
    modules = [torch.nn.Embedding(3, 2), torch.nn.Linear(2, 3)]
    held = [_Stage(index, module) for index, module in enumerate(modules)]
    for stage in held:
        stages.add(stage)
    for module in modules:
        recorder.modules.add(module, module.weight)

    told = [stages.told_of(module.weight, recorder.modules) for module in modules]

    assert told == [{"stage": 0, "held_as": ["embedding"]}, {"stage": 1}]
    assert stages.told_of(torch.nn.Parameter(torch.ones(2)), recorder.modules) == {}


def test_a_weight_that_two_modules_hold_is_told(tmp_path):
    recorder = Recorder(tmp_path, "run", None)
    weight = torch.nn.Parameter(torch.ones(2))
    for module in (torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)):
        recorder.modules.add(module, weight)

    assert recorder.modules.held_as(weight) == ["several"]


def test_stages_are_known_while_they_live():
    stages = Stages()
    stage = _Stage(0, torch.nn.Linear(2, 2))
    stages.add(stage)
    assert stages.known

    del stage

    assert not stages.known
