"""Which steps are held against one another where a factor goes from step to step."""

from __future__ import annotations

from failuremap.audit.factors import of_one_model
from failuremap.audit.faults import Judged


def steps(*names: str) -> list[Judged]:
    return [Judged(number, names=frozenset(held.split())) for number, held in enumerate(names, 1)]


def test_steps_on_parameters_that_have_nothing_in_common_are_apart():
    generator, critic, again, last = steps("g.weight g.bias", "d.weight", "g.weight", "d.weight d.bias")

    assert of_one_model([generator, critic, again, last]) == [[generator, again], [critic, last]]


def test_steps_that_a_later_one_joins_are_one_models():
    head, encoder, both = steps("head", "encoder", "head encoder")

    assert of_one_model([head, encoder, both]) == [[head, encoder, both]]
