"""Parameters that differ from the others by a factor: what they have in common names it, or nothing does."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import EVEN, edited, judged_in, last, silent, the_fault
from audit.sharded_traces import write_sharded
from audit.traces import SHAPES, HandJob, of_kind
from failuremap.audit import diagnose
from failuremap.catalogue.signs import Sign

# two ranks, so that 2 is their number
ALIKE = [[300, 300, 300], [300, 300, 300]]


def slugs(verdict):
    return [candidate.slug for finding in verdict.findings for candidate in finding.candidates]


def scaled(**factors):
    """The mean, with factors on some parameters."""

    def update(window):
        result = window.combined(1 / window.counts_RM.size)
        for name, factor in factors.items():
            result[:, window.columns(name.replace("_", "."))] *= factor
        return result

    return update


# ---- one over the elements of each tensor


def over_elements(power=1.0, leave=()):
    def update(window):
        result = window.combined(1.0)
        for name, shape in SHAPES.items():
            size = 1
            for length in shape:
                size *= length
            result[:, window.columns(name)] /= 1.0 if name in leave else size**power
        return result

    return update


def test_updates_that_are_divided_by_their_elements_are_a_fault_with_its_sign(tmp_path):
    fault = the_fault_of_parameters(last(HandJob(EVEN, over_elements()), tmp_path))

    assert fault.signs == {Sign.SOME_PARAMETERS, Sign.DIVIDED_BY_ELEMENTS}
    assert fault.sentence == (
        "The update of each tensor is divided by its number of elements: that of layer.bias (8) is 512 times as large, "
        "against its gradient, as that of embed.weight (4096)."
    )


def the_fault_of_parameters(judged):
    (only,) = [fault for fault in judged.faults if fault.kind.startswith("scaled")]
    return only


def test_an_average_over_elements_is_named(tmp_path):
    verdict = diagnose(HandJob(EVEN, over_elements()).write(tmp_path))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["average-divides-by-elements"])


@pytest.mark.parametrize("update", [over_elements(0.5), over_elements(leave=["layer.weight"])], ids=["root", "not all"])
def test_negative_control_other_factors_on_all_tensors_are_not_named(update, tmp_path):
    assert "average-divides-by-elements" not in slugs(diagnose(HandJob(EVEN, update).write(tmp_path)))


def test_two_sizes_are_too_few_to_name_a_factor(tmp_path):
    shapes = {name: SHAPES[name] for name in ("layer.weight", "layer.bias")}

    verdict = diagnose(HandJob(EVEN, scaled(layer_bias=7.5), shapes=shapes).write(tmp_path))

    assert slugs(verdict) == []


# ---- sparse gradients


def with_sparse(*names):
    """Says of some parameters that their gradients are sparse."""

    def edit(_, records):
        for place in of_kind(records, "parameter"):
            if records[place][0]["name"] in names:
                records[place][0]["sparse"] = True
        return records

    return edit


@pytest.mark.parametrize("factor", [2, 0.5])
def test_sparse_gradients_with_a_factor_of_their_own_are_named(factor, tmp_path):
    folder = edited(HandJob(ALIKE, scaled(embed_weight=factor)), tmp_path, with_sparse("embed.weight"))

    verdict = diagnose(folder)

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["sparse-path-own-scale"])
    assert verdict.sentence == f"1 parameter gets {factor} times the update of the rest: embed.weight."


def test_where_most_gradients_are_sparse_the_dense_ones_are_apart(tmp_path):
    job = HandJob(ALIKE, scaled(head_weight=2, layer_bias=2))
    judged = judged_in(edited(job, tmp_path, with_sparse("embed.weight", "layer.weight")))[-1]

    assert Sign.SPARSE_APART in the_fault(judged).signs


@pytest.mark.parametrize(
    ("sparse", "factors"),
    [
        ([], {"embed_weight": 2}),
        (["embed.weight", "head.weight"], {"embed_weight": 2}),
        (["embed.weight"], {"embed_weight": 2, "head_weight": 2}),
        (["embed.weight"], {"embed_weight": 2, "head_weight": 3}),
        (["embed.weight"], {"head_weight": 2}),
    ],
    ids=["none is sparse", "not all of them", "a dense one, too", "a dense one by another factor", "another"],
)
def test_negative_control_factors_that_are_not_those_of_all_sparse_gradients_have_no_name(sparse, factors, tmp_path):
    verdict = diagnose(edited(HandJob(ALIKE, scaled(**factors)), tmp_path, with_sparse(*sparse)))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", [])


def test_negative_control_a_factor_without_a_name_on_sparse_gradients_is_the_scripts_own(tmp_path):
    judged = judged_in(edited(HandJob(ALIKE, scaled(embed_weight=0.1)), tmp_path, with_sparse("embed.weight")))[-1]

    assert silent(judged)


def test_negative_control_sparse_gradients_that_are_right_are_right(tmp_path):
    assert diagnose(edited(HandJob(ALIKE), tmp_path, with_sparse("embed.weight"))).outcome == "right"


# ---- whole modules of a sharded model


def test_whole_modules_of_a_sharded_model_with_a_factor_of_their_own_are_named(tmp_path):
    job = HandJob(ALIKE, scaled(layer_weight=0.5, layer_bias=0.5))

    verdict = diagnose(write_sharded(job, tmp_path, [[0, 1]]))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", ["divide-factor-on-root-only"])
    assert verdict.findings[0].parameters == ["layer.bias", "layer.weight"]


def test_negative_control_a_part_of_a_module_has_no_name(tmp_path):
    verdict = diagnose(write_sharded(HandJob(ALIKE, scaled(layer_weight=0.5)), tmp_path, [[0, 1]]))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", [])


def test_negative_control_modules_of_a_model_that_is_not_sharded_have_no_name(tmp_path):
    verdict = diagnose(HandJob(ALIKE, scaled(layer_weight=0.5, layer_bias=0.5)).write(tmp_path))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", [])


def test_negative_control_modules_of_a_model_that_several_ranks_run_together_have_no_name(tmp_path):
    job = HandJob(ALIKE, scaled(layer_weight=0.5, layer_bias=0.5), gradients=lambda drawn, _: drawn[[0, 0]])

    verdict = diagnose(write_sharded(job, tmp_path, [[0, 1]], "gradient", "update", "weights"))

    assert "divide-factor-on-root-only" not in slugs(verdict)


# ---- parameters that some ranks alone hold


def experts(folder, coefficient, *, holders=(0, 2)):
    """Four ranks, of which some hold layer.weight; its gradients there are added up with this coefficient."""

    def gradients(drawn, _):
        for rank in set(range(4)) - set(holders):
            drawn[rank, :, 128:192] = 0
        return drawn

    def update(window):
        result, columns = window.combined(1 / 4), window.columns("layer.weight")
        result[:, columns] = coefficient * window.gradients_RML[:, :, columns].sum(axis=(0, 1))
        return result

    def edit(rank, records):
        return records if rank in holders else [_without_layer(fields, numbers) for fields, numbers in records]

    return edited(HandJob([[300]] * 4, update, gradients=gradients), folder, edit)


def _without_layer(fields, numbers):
    """A record of a rank that has no layer.weight (its id is 1; 64 numbers, behind 128 of the parameter before)."""
    if fields["kind"] not in ("backward", "step", "end"):
        return fields, numbers
    fields = {**fields, "parameters": [id for id in fields["parameters"] if id != 1]}
    if fields["kind"] == "backward":
        return fields, np.delete(numbers, slice(128, 192))
    if fields["kind"] == "end":
        return fields, np.delete(numbers, slice(128, 192))
    weights = 280 + (128 if fields["weights"] == "sketch" else 64)
    kept = np.delete(numbers, np.r_[128:192, weights : weights + 64])
    return fields, kept


@pytest.mark.parametrize("holders", [(0, 2), (3,)], ids=str)
def test_parameters_that_are_averaged_over_the_ranks_that_hold_them_are_wrong(holders, tmp_path):
    verdict = diagnose(experts(tmp_path, 1 / len(holders), holders=holders))

    assert (verdict.outcome, slugs(verdict)) == ("wrong", [])
    assert verdict.sentence == f"1 parameter gets {4 // len(holders)} times the update of the rest: layer.weight."


def test_negative_control_parameters_of_some_ranks_that_are_divided_by_all_of_them_are_right(tmp_path):
    assert diagnose(experts(tmp_path, 1 / 4)).outcome == "right"
