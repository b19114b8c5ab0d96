"""One step judged: each fault by its kind and signs, beside a step that looks much like it and is right."""

from __future__ import annotations

import numpy as np
import pytest

from audit.judging import (
    DDP,
    EVEN,
    combined,
    edited,
    judged_in,
    kinds,
    last,
    silent,
    the_fault,
    with_losses,
)
from audit.traces import HandJob, of_kind
from failuremap.audit.sentences import words
from failuremap.catalogue.signs import Sign

THREE = [[300, 300, 300], [300, 300, 300]]


def own(window):
    return window.gradients_RML.mean(axis=1)


def scaled_in(name, factor):
    """The mean, and a factor on one parameter."""

    def update(window):
        result = window.combined(1 / window.counts_RM.size)
        result[:, window.columns(name)] *= factor
        return result

    return update


def test_a_right_step_has_nothing_to_say(tmp_path):
    judged = last(HandJob(EVEN), tmp_path)

    assert silent(judged)
    assert (judged.notes, judged.micro_batch_count, len(judged.names)) == ([], 2, 4)
    assert (judged.losses_seen, judged.losses_total) == (4, 4)
    assert judged.sites == ["cross_entropy(mean) at train.py:41"]


# ---- which contributions are in the update


@pytest.mark.parametrize(
    ("counts", "coefficients", "signs"),
    [
        (THREE, [0, 0, 0.5], {Sign.LAST_MICRO_BATCH_ONLY}),
        (THREE, [0.5, 0, 0], {Sign.FIRST_MICRO_BATCH_ONLY}),
        (THREE, [0.25, 0, 0.25], {Sign.MICRO_BATCH_MISSING}),
        ([[300]] * 3, [[0.5], [0], [0.5]], {Sign.RANK_MISSING}),
        ([[300]] * 3, [[1], [0], [0]], {Sign.FIRST_RANK_ONLY}),
        ([[300]] * 2, [[1], [0]], {Sign.FIRST_RANK_ONLY, Sign.RANK_MISSING}),
        ([[300]] * 2, [[0.5], [0]], {Sign.RANK_MISSING}),
    ],
)
def test_what_is_missing_is_a_sign(counts, coefficients, signs, tmp_path):
    fault = the_fault(last(HandJob(counts, combined(coefficients)), tmp_path))

    presence = {
        Sign.LAST_MICRO_BATCH_ONLY, Sign.FIRST_MICRO_BATCH_ONLY, Sign.MICRO_BATCH_MISSING,
        Sign.RANK_MISSING, Sign.FIRST_RANK_ONLY,
    }  # fmt: skip
    assert fault.kind.startswith("missing")
    assert fault.signs & presence == signs


def test_ranks_that_step_on_their_own_gradients_are_a_fault(tmp_path):
    fault = the_fault(last(HandJob(EVEN, own), tmp_path))

    assert (fault.kind, Sign.OWN_RANK_ONLY in fault.signs) == (Sign.OWN_RANK_ONLY, True)


def test_one_rank_that_steps_on_its_own_gradient_is_none(tmp_path):
    assert silent(last(HandJob([[300, 300]], own), tmp_path))


@pytest.mark.parametrize(
    ("path", "sign"),
    [
        ({}, Sign.NO_DDP),
        (DDP, Sign.DDP_PRESENT),
        ({**DDP, "forwards": 0}, Sign.FORWARD_BYPASSED_WRAPPER),
        ({**DDP, "armed": 0, "synchronising": False}, Sign.SYNCHRONISATION_OFF),
        ({**DDP, "armed": 0}, Sign.FORWARD_UNSYNCHRONISED),
    ],
    ids=str,
)
def test_what_is_known_of_the_wrapper_is_a_sign(path, sign, tmp_path):
    signs = the_fault(last(HandJob(EVEN, own, path=path), tmp_path)).signs

    wrapper = {Sign.FORWARD_BYPASSED_WRAPPER, Sign.SYNCHRONISATION_OFF, Sign.FORWARD_UNSYNCHRONISED, Sign.NO_DDP}
    assert sign in signs
    assert signs & wrapper <= {sign}


# ---- gradients that were only looked at


def through_grad(place: int):
    """Makes one backward of each window a call of torch.autograd.grad."""

    def edit(_, records):
        for number, record in enumerate(of_kind(records, "backward")):
            if number % 2 == place:
                records[record][0].update(via="grad", kept=[])
        return records

    return edit


@pytest.mark.parametrize(("place", "coefficients"), [(0, [0, 0.5]), (1, [0.5, 0])])
def test_a_gradient_that_was_only_looked_at_is_set_aside(place, coefficients, tmp_path):
    folder = edited(HandJob(EVEN, combined(coefficients)), tmp_path, through_grad(place))

    judged = judged_in(folder)[-1]

    assert (judged.faults, judged.micro_batch_count) == ([], 1)
    assert judged.notes == ["set aside: gradients that torch.autograd.grad returned and no update holds"]


def test_a_gradient_that_was_looked_at_before_it_is_computed_again_in_another_scale_is_set_aside(tmp_path):
    def thrice(drawn, _):
        drawn[:, 0] = 3 * drawn[:, 1]
        return drawn

    folder = edited(HandJob(EVEN, combined([0, 0.5]), gradients=thrice), tmp_path, through_grad(0))
    judged = judged_in(folder)[-1]

    assert (judged.faults, judged.doubts, judged.micro_batch_count) == ([], [], 1)


def test_a_gradient_of_autograd_grad_that_is_in_the_update_is_judged(tmp_path):
    judged = judged_in(edited(HandJob(EVEN), tmp_path, through_grad(0)))[-1]

    assert (silent(judged), judged.notes, judged.micro_batch_count) == (True, [], 2)


def test_a_backward_that_is_not_in_the_update_is_a_fault_beside_autograd_grad(tmp_path):
    """The call of autograd.grad is in the update, the backward beside it is not."""
    judged = judged_in(edited(HandJob(EVEN, combined([0, 0.5])), tmp_path, through_grad(1)))[-1]

    assert [kind.startswith("missing") for kind in kinds(judged)] == [True]


def test_where_all_gradients_are_of_autograd_grad_a_missing_one_is_a_fault(tmp_path):
    def all_of_them(_, records):
        for place in of_kind(records, "backward"):
            records[place][0].update(via="grad", kept=[])
        return records

    judged = judged_in(edited(HandJob(EVEN, combined([0, 0.5])), tmp_path, all_of_them))[-1]

    assert [kind.startswith("missing") for kind in kinds(judged)] == [True]


# ---- some parameters


def test_a_parameter_of_the_own_rank_alone_is_a_fault_with_its_name(tmp_path):
    def update(window):
        result, columns = window.combined(1 / window.counts_RM.size), window.columns("head.weight")
        result[:, columns] = own(window)[:, columns]
        return result

    fault = the_fault(last(HandJob(EVEN, update), tmp_path))

    assert (fault.kind, fault.parameters) == ("local parameters", ["head.weight"])
    assert {Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS} <= fault.signs


def test_where_most_parameters_are_of_the_own_rank_alone_they_are_named(tmp_path):
    def update(window):
        result, columns = own(window), window.columns("head.weight")
        result[:, columns] = window.combined(1 / window.counts_RM.size)[:, columns]
        return result

    fault = the_fault(last(HandJob(EVEN, update), tmp_path))

    assert (fault.kind, sorted(fault.parameters)) == (
        "local parameters",
        ["embed.weight", "layer.bias", "layer.weight"],
    )
    assert {Sign.OWN_RANK_ONLY, Sign.SOME_PARAMETERS} <= fault.signs


def test_a_parameter_with_a_rule_of_its_own_is_a_fault_with_its_name(tmp_path):
    def update(window):
        result, columns = window.combined(1 / 4), window.columns("head.weight")
        result[:, columns] = window.combined([[0.5, 0.1], [0.1, 0.3]])[:, columns]
        return result

    fault = the_fault(last(HandJob(EVEN, update), tmp_path))

    assert (fault.kind, fault.parameters) == ("other parameters", ["head.weight"])


@pytest.mark.parametrize("name", ["embed.weight", "layer.bias"])
@pytest.mark.parametrize("factor", [2, 1 / 2, 3, 1 / 3])
def test_a_parameter_off_by_the_ranks_or_the_window_is_a_fault(factor, name, tmp_path):
    fault = the_fault(last(HandJob(THREE, scaled_in(name, factor)), tmp_path))

    assert (fault.kind.startswith("scaled parameters"), fault.parameters) == (True, [name])


@pytest.mark.parametrize("factor", [0.1, 10, 0.7])
def test_a_parameter_off_by_another_factor_is_the_scripts_own_affair(factor, tmp_path):
    judged = last(HandJob(THREE, scaled_in("head.weight", factor)), tmp_path)

    assert judged.faults == []
    assert judged.notes == [f"1 parameter gets {factor:g} times the update of the rest: head.weight."]


def test_ranks_that_scale_one_sum_by_counts_of_their_own_are_told_by_how_much(tmp_path):
    def by_own_count(window):
        return window.combined(0.5) * np.array([[1.0], [0.25]])

    fault = the_fault(last(HandJob([[300], [300]], by_own_count, steps=1), tmp_path))

    assert (fault.kind, fault.sentence) == (
        "apart",
        "Each rank scales the same sum of gradients by a factor of its own: 0.25 times as much on one as on another.",
    )


# ---- data, the step before, numbers that are not finite


def same_on_all_ranks(gradients, _):
    return np.repeat(gradients[:1], len(gradients), axis=0)


def test_equal_gradients_on_all_ranks_are_a_fault(tmp_path):
    fault = the_fault(last(HandJob(EVEN, gradients=same_on_all_ranks), tmp_path))

    assert (fault.kind, Sign.SAME_CONTRIBUTIONS in fault.signs) == ("same gradient", True)
    assert fault.sentence == "All ranks compute the same gradient."


def test_equal_gradients_on_equal_targets_are_said_to_be_the_same_data(tmp_path):
    def same_print(fields):
        fields["losses"][0]["fingerprint"] = 5.0 + fields["id"]

    folder = with_losses(HandJob(EVEN, gradients=same_on_all_ranks), tmp_path, same_print)

    assert the_fault(judged_in(folder)[-1]).sentence == (
        "All ranks compute the same gradient, on the same targets: they train on the same data."
    )


def test_equal_gradients_of_one_ranks_micro_batches_are_none(tmp_path):
    def same_micro_batches(gradients, _):
        return np.repeat(gradients[:, :1], gradients.shape[1], axis=1)

    assert last(HandJob(EVEN, gradients=same_micro_batches), tmp_path).faults == []


@pytest.mark.parametrize(("added", "sign"), [(True, Sign.PREVIOUS_UPDATE_ADDED), (False, Sign.PREVIOUS_UPDATE_ONLY)])
def test_the_step_before_in_an_update_is_a_fault(added, sign, tmp_path):
    def update(window):
        before = window.before or window
        return before.combined(0.25) + (window.combined(0.25) if added and window.before else 0)

    fault = the_fault(last(HandJob(EVEN, update), tmp_path))

    assert (fault.kind, fault.signs) == (sign, {sign})


def test_a_gradient_of_a_rank_without_units_that_is_not_finite_is_a_fault(tmp_path):
    def nan_on_rank_1(gradients, _):
        gradients[1] = np.nan
        return gradients

    job = HandJob([[300], [0]], lambda window: window.combined(np.nan), gradients=nan_on_rank_1)

    fault = the_fault(last(job, tmp_path))

    assert (fault.kind, fault.signs) == ("nonfinite", {Sign.NONFINITE, Sign.EMPTY_CONTRIBUTION})
    assert [cell.count for cell in fault.cells] == [300, 0]


def test_a_gradient_with_units_behind_it_that_is_not_finite_and_was_left_out_is_a_doubt(tmp_path):
    def nan_on_rank_1(gradients, _):
        gradients[1] = np.nan
        return gradients

    judged = last(HandJob([[300], [300]], combined([[1], [0]]), gradients=nan_on_rank_1), tmp_path)

    assert (judged.faults, judged.doubts) == ([], ["the gradients were not finite (nan or inf)"])


def test_a_gradient_with_units_behind_it_that_is_not_finite_is_a_doubt(tmp_path):
    def nan_on_rank_1(gradients, _):
        gradients[1] = np.nan
        return gradients

    job = HandJob([[300], [300]], lambda window: window.combined(np.nan), gradients=nan_on_rank_1)

    judged = last(job, tmp_path)

    assert (judged.faults, judged.doubts) == ([], ["the gradients were not finite (nan or inf)"])


# ---- what cannot be told, or was not measured


def test_an_update_that_is_no_combination_is_unexplained_and_no_fault(tmp_path):
    def noise(window):
        one = np.random.default_rng(7 + window.number).normal(size=window.gradients_RML.shape[2])
        return np.repeat(one[None], len(window.counts_RM), axis=0)

    judged = last(HandJob(EVEN, noise), tmp_path)

    assert (judged.faults, len(judged.unexplained), len(judged.unjudged)) == ([], 1, 4)


def test_a_parameter_too_small_for_a_rule_of_its_own_is_a_doubt(tmp_path):
    shapes = {"layer.weight": (8, 8), "scale": (2,)}

    def update(window):
        result = window.combined(1 / 4)
        result[:, window.columns("scale")] = 7.0
        return result

    judged = last(HandJob(EVEN, update, shapes=shapes), tmp_path)

    assert judged.doubts == ["too few numbers to tell which rule they follow: scale"]
    assert judged.unjudged == {"scale"}


def test_an_update_of_zero_is_a_doubt(tmp_path):
    judged = last(HandJob(EVEN, combined(0)), tmp_path)

    assert not silent(judged)
    assert "weights" not in kinds(judged)


def test_parameters_that_are_not_watched_are_not_measured(tmp_path):
    def unwatched(_, records):
        for place in of_kind(records, "step"):
            records[place][0]["unwatched"] = ["DTensor"]
        return records

    judged = judged_in(edited(HandJob(EVEN), tmp_path, unwatched))[-1]

    assert judged.unmeasured == ["parameters or gradients of type DTensor are not watched"]


def test_a_step_without_a_rank_is_a_doubt(tmp_path):
    folder = HandJob(EVEN).write(tmp_path)
    (folder / "rank00001-1.trace").unlink()

    judged = judged_in(folder)[-1]

    assert (judged.faults, judged.doubts, judged.missing_ranks) == ([], ["rank 1 took no part in it"], [1])


def test_a_step_without_any_gradient_is_not_measured(tmp_path):
    def without(_, records):
        return [record for record in records if record[0]["kind"] != "backward"]

    judged = judged_in(edited(HandJob(EVEN), tmp_path, without))[-1]

    assert judged.unmeasured == [words.NO_GRADIENT]
