"""The fit: laws of the coefficients, their errors, what cannot be told apart, parameters that follow other rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.traces import as_type
from failuremap.audit.fitting.fit import Products, explained, fit, tolerance

SIZES = (128, 128, 64, 8)
STARTS = np.cumsum([0, *SIZES])
ALL = np.ones(len(SIZES), dtype=bool)
# the largest error of K coefficients in float32, as found on a million heavy-tailed numbers
LARGEST_ERROR = {2: 1e-6, 8: 2e-6, 16: 3e-6, 64: 1e-5}


def drawn(count: int, seed: int = 0, *, alike: float = 0.0):
    """Contributions in float32, their cosines about `alike`."""
    generator = np.random.default_rng(seed)
    common = generator.normal(size=(1, STARTS[-1]))
    free = generator.normal(size=(count, STARTS[-1]))
    return as_type(np.sqrt(alike) * common + np.sqrt(1 - alike) * free, "float32")


def products_of(contributions, update, dtype: str = "float32") -> Products:
    vectors = np.concatenate([contributions, update[None]])
    return Products(vectors, STARTS, range(len(vectors)), [dtype] * len(SIZES), SIZES)


def solved(contributions, update, dtype: str = "float32"):
    count = len(contributions)
    return products_of(contributions, update, dtype).solve(range(count), count, ALL)


def rounded_update(contributions, coefficients):
    return as_type(np.asarray(coefficients) @ contributions, "float32")


@pytest.mark.parametrize("count", sorted(LARGEST_ERROR))
def test_any_coefficients_are_recovered(count):
    coefficients = np.random.default_rng(count).uniform(0.5, 2, size=count) / count
    contributions = drawn(count)

    solution = solved(contributions, rounded_update(contributions, coefficients))

    assert np.abs(solution.coefficients / coefficients - 1).max() < LARGEST_ERROR[count]
    assert (np.abs(solution.coefficients - coefficients) <= 5 * solution.errors).all()
    assert solution.residual < 1e-6


def test_wrong_coefficients_are_not_recovered_as_right_ones():
    contributions = drawn(2)

    solution = solved(contributions, rounded_update(contributions, [0.5, 0.51]))

    assert abs(solution.coefficients[1] / 0.5 - 1) > 5 * solution.errors[1] / 0.5


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.permutations(range(6)))
def test_permuting_contributions_permutes_coefficients(seed, order):
    contributions = drawn(6, seed)
    update = rounded_update(contributions, np.arange(1, 7) / 21)

    straight, permuted = solved(contributions, update), solved(contributions[order], update)

    np.testing.assert_allclose(permuted.coefficients, straight.coefficients[list(order)], rtol=1e-9)
    np.testing.assert_allclose(permuted.errors, straight.errors[list(order)], rtol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.floats(1e-6, 1e6))
def test_scaling_a_contribution_divides_its_coefficient(seed, factor):
    contributions = drawn(4, seed)
    update = rounded_update(contributions, [0.25] * 4)
    scaled = contributions * np.array([factor, 1, 1, 1])[:, None]

    solution = solved(scaled, update)

    np.testing.assert_allclose(solution.coefficients * [factor, 1, 1, 1], [0.25] * 4, rtol=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.floats(1e-6, 1e6))
def test_scaling_the_update_scales_all_coefficients(seed, factor):
    contributions = drawn(4, seed)
    update = rounded_update(contributions, [0.25] * 4)

    np.testing.assert_allclose(solved(contributions, update * factor).coefficients, 0.25 * factor, rtol=1e-4)


def test_a_contribution_split_in_two_leaves_both_the_coefficient_of_the_whole():
    contributions = drawn(3)
    part = drawn(1, seed=5)[0]
    update = rounded_update(contributions, [0.2, 0.3, 0.5])
    split = np.concatenate([contributions[:2], [part, contributions[2] - part]])

    np.testing.assert_allclose(solved(split, update).coefficients, [0.2, 0.3, 0.5, 0.5], rtol=1e-5)


def test_an_added_contribution_that_is_not_in_the_update_gets_zero():
    contributions = drawn(4)

    solution = solved(contributions, rounded_update(contributions, [0.5, 0.5, 0, 0]))

    np.testing.assert_allclose(solution.coefficients, [0.5, 0.5, 0, 0], atol=1e-6)


def test_a_zero_contribution_has_no_coefficient_and_leaves_the_others_theirs():
    contributions = drawn(3)
    contributions[1] = 0

    solution = solved(contributions, rounded_update(contributions, [0.5, 0.5, 0.5]))

    np.testing.assert_allclose(solution.coefficients[[0, 2]], [0.5, 0.5], rtol=1e-5)
    assert np.isfinite(solution.errors).tolist() == [True, False, True]


def test_no_contribution_at_all_explains_nothing():
    contributions = np.zeros((2, STARTS[-1]))

    solution = solved(contributions, drawn(1)[0])

    assert (solution.residual, np.isinf(solution.errors).all()) == (1.0, True)


def test_an_update_of_zero_has_coefficients_of_zero():
    solution = solved(drawn(2), np.zeros(STARTS[-1]))

    np.testing.assert_array_equal(solution.coefficients, 0)
    assert solution.residual == 0


@pytest.mark.parametrize("factor", [1.0, -1.0, 2.0, 1e-3])
def test_proportional_contributions_get_infinite_errors(factor):
    contributions = drawn(2)
    contributions[1] = factor * contributions[0]

    assert np.isinf(solved(contributions, rounded_update(contributions, [0.5, 0.5])).errors).all()


def test_dependent_contributions_get_infinite_errors():
    contributions = drawn(4)
    contributions[3] = contributions[:3].sum(axis=0)

    assert np.isinf(solved(contributions, rounded_update(contributions, [0.25] * 4)).errors).all()


@pytest.mark.parametrize("difference", 10.0 ** -np.arange(1, 10))
def test_contributions_that_are_nearly_alike_never_get_a_wrong_number_that_looks_sure(difference):
    contributions = drawn(2)
    contributions[1] = as_type(contributions[0] + difference * contributions[1], "float32")

    solution = solved(contributions, rounded_update(contributions, [0.7, 0.3]))

    wrong = np.abs(solution.coefficients - [0.7, 0.3])
    assert (wrong <= np.maximum(5 * solution.errors, 1e-5)).all()


def test_more_contributions_than_numbers_get_infinite_errors():
    generator = np.random.default_rng(0)
    contributions, starts = generator.normal(size=(5, 4)), np.array([0, 4])
    vectors = np.concatenate([contributions, contributions.mean(axis=0)[None]])
    products = Products(vectors, starts, range(6), ["float32"], [4])

    assert np.isinf(products.solve(range(5), 5, np.array([True])).errors).all()


def test_a_small_tensor_counts_no_more_numbers_than_it_has():
    products = Products(np.ones((2, 128)), np.array([0, 128]), [0], ["float32"], [4])

    assert products.row_counts.tolist() == [4]


def test_tensors_count_alike_whatever_their_size():
    contributions = drawn(2)
    contributions[:, : STARTS[1]] *= 1e6
    update = rounded_update(contributions, [0.5, 0.5])
    update[STARTS[1] :] = rounded_update(contributions, [0.4, 0.4])[STARTS[1] :]
    products = products_of(contributions, update)

    solution = products.solve(range(2), 2, ALL)

    assert 0.42 < solution.coefficients[0] < 0.48


# ---- gradients in a small type


def trial(seed: int, dtype: str, coefficients_of):
    """One right or wrong step in a small type: relative distance of the coefficients from the right one, and limits."""
    count = 2 + seed % 7
    contributions = as_type(drawn(count, seed, alike=(0.0, 0.5, 0.9)[seed % 3]), dtype)
    update = as_type(coefficients_of(count) @ contributions, dtype)
    solution = solved(contributions, update, dtype)
    return np.abs(solution.coefficients * count - 1), np.maximum(0.01, 5 * solution.errors * count)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_rounding_is_never_taken_for_a_fault(dtype):
    right = lambda count: np.full(count, 1 / count)  # noqa: E731

    distances = [trial(seed, dtype, right) for seed in range(200)]

    assert [seed for seed, (apart, limit) in enumerate(distances) if (apart > limit).any()] == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_contribution_that_counts_twice_is_always_found(dtype):
    def twice(count):
        return np.array([2.0, *np.ones(count - 1)]) / count

    distances = [trial(seed, dtype, twice) for seed in range(200)]

    assert [seed for seed, (apart, limit) in enumerate(distances) if apart[0] <= limit[0]] == []


def test_the_tolerance_grows_with_rounding_and_contributions():
    assert tolerance("float32", 1) < tolerance("float16", 1) < tolerance("bfloat16", 1) < tolerance("bfloat16", 64)
    assert tolerance("float32", 3) == pytest.approx(3 * (4 * 6e-8 * 2 + 2e-6))


# ---- one rule for all parameters, or several


def fitted(contributions, update, dtype: str = "float32"):
    count = len(contributions)
    return fit(products_of(contributions, update, dtype), range(count), count, ALL)


def test_one_rule_for_all_parameters_is_one_cluster():
    contributions = drawn(4)

    result = fitted(contributions, rounded_update(contributions, [0.25] * 4))

    assert [cluster.parameters.tolist() for cluster in result.clusters] == [[True] * 4]
    assert (result.unexplained.any(), result.rounding) == (False, 0.0)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_parameter_with_a_rule_of_its_own_is_a_cluster_of_its_own(place):
    contributions = drawn(2)
    update = rounded_update(contributions, [0.5, 0.5])
    columns = slice(STARTS[place], STARTS[place + 1])
    update[columns] = contributions[0, columns]

    result = fitted(contributions, update)

    assert result.clusters[0].parameters.tolist() == [p != place for p in range(4)]
    assert np.flatnonzero(result.clusters[1].parameters).tolist() == [place]
    np.testing.assert_allclose(result.clusters[1].solution.coefficients, [1, 0], atol=1e-6)
    assert not result.unexplained.any()


def test_a_parameter_too_small_for_a_rule_is_left_unexplained():
    contributions = drawn(4)
    update = rounded_update(contributions, [0.25] * 4)
    update[STARTS[3] :] *= 2

    result = fitted(contributions, update)

    assert result.clusters[0].parameters.tolist() == [True, True, True, False]
    assert result.unexplained.tolist() == [False, False, False, True]


def test_a_small_parameter_that_follows_the_rule_of_the_others_is_explained():
    contributions = drawn(4)

    assert fitted(contributions, rounded_update(contributions, [0.25] * 4)).clusters[0].parameters[3]


def test_an_update_that_is_no_combination_is_left_unexplained():
    result = fitted(drawn(2), drawn(1, seed=9)[0])

    assert (result.clusters, result.unexplained.tolist()) == ([], [True] * 4)


def test_a_parameter_without_any_gradient_is_in_no_cluster():
    contributions = drawn(2)
    contributions[:, STARTS[1] : STARTS[2]] = 0

    result = fitted(contributions, rounded_update(contributions, [0.5, 0.5]))

    assert result.clusters[0].parameters.tolist() == [True, False, True, True]
    assert not result.unexplained.any()


def test_arithmetic_in_a_small_type_on_the_way_is_rounding():
    contributions = drawn(2)
    update = as_type(rounded_update(contributions, [0.5, 0.5]), "float16")

    result = fitted(contributions, update)

    assert [cluster.parameters.tolist() for cluster in result.clusters] == [[True] * 4]
    assert 0 < result.rounding < 2e-2


def test_one_parameter_off_by_a_thousandth_is_not_rounding():
    contributions = drawn(2)
    update = rounded_update(contributions, [0.5, 0.5])
    update[: STARTS[1]] *= 1.001

    result = fitted(contributions, update)

    assert result.rounding == 0
    assert len(result.clusters) == 2


def test_explained_keeps_to_the_parameters_that_were_asked_for():
    contributions = drawn(2)
    products = products_of(contributions, rounded_update(contributions, [0.5, 0.5]))
    among = np.array([True, False, True, False])

    right = explained(products, [0, 1], 2, np.array([0.5, 0.5]), np.full(4, 1e-5), among)
    wrong = explained(products, [0, 1], 2, np.array([0.5, 0.6]), np.full(4, 1e-5), among)

    assert (right.tolist(), wrong.any()) == (among.tolist(), False)
