"""Names of parameters are those of the outermost module, the same with and without wrappers, and never two alike."""

from __future__ import annotations

import gc

import pytest

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def nn():
    return pytest.importorskip("torch").nn


@pytest.fixture
def modules():
    pytest.importorskip("torch")
    from failuremap.audit.capture.held.names import Modules

    return Modules()


def known(modules, root):
    """Tells of a module and all inside it, as its registration hooks would."""
    for module in reversed(list(root.modules())):
        modules.add(module)
    return root


def names(modules, root):
    return [modules.name(parameter) for parameter in root.parameters()]


def test_a_parameter_has_its_name_in_the_outermost_module(modules, nn):
    model = known(modules, nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))))

    assert names(modules, model) == ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]


def test_a_parameter_of_no_module_has_no_name(modules, nn):
    assert modules.name(nn.Parameter(nn.Linear(2, 2).weight.detach().clone())) == ""
    assert modules.name(None) == ""


def test_a_wrapper_leaves_no_trace_in_a_name(modules, nn):
    class Wrapper(nn.Module):
        def __init__(self, inner, name):
            super().__init__()
            self.add_module(name, inner)

    for name in ("module", "_orig_mod", "_checkpoint_wrapped_module"):
        inner = nn.Linear(2, 2, bias=False)
        outer = known(modules, Wrapper(nn.Sequential(Wrapper(inner, name)), "module"))

        assert modules.name(inner.weight).split(" #")[0] in ("0.weight", "0.module.weight")
        del outer


def test_two_models_never_share_a_name(modules, nn):
    first, second = (known(modules, nn.Linear(2, 2)) for _ in range(2))

    assert names(modules, first) + names(modules, second) == ["weight", "bias", "weight #2", "bias #2"]


def test_a_tied_parameter_has_one_name(modules, nn):
    model = nn.ModuleDict({"embed": nn.Embedding(4, 2), "head": nn.Linear(2, 4, bias=False)})
    model["head"].weight = model["embed"].weight
    known(modules, model)

    assert modules.name(model["head"].weight) == modules.name(model["embed"].weight) == "embed.weight"


def test_a_name_stays_what_it_was_when_it_was_first_asked_for(modules, nn):
    inner = known(modules, nn.Linear(2, 2))
    before = modules.name(inner.weight)

    known(modules, nn.Sequential(inner))

    assert modules.name(inner.weight) == before == "weight"


def test_a_model_that_is_gone_is_not_held(modules, nn):
    known(modules, nn.Linear(2, 2))
    gc.collect()

    assert list(modules._all()) == []


def test_a_model_that_embeds_has_tokens_and_another_examples(modules, nn):
    plain = known(modules, nn.Linear(2, 2))
    assert modules.unit() == "example"

    embedding = known(modules, nn.Embedding(4, 2))
    assert (modules.unit(), plain is embedding) == ("token", False)


def test_only_data_parallel_wrappers_are_data_parallel(modules, nn):
    known(modules, nn.Linear(2, 2))

    assert modules.data_parallel() == []
