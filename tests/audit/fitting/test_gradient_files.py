"""An update in a file is fitted to contributions in files; what no file can tell is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from failuremap.audit.fitting.gradient_files import FilesFit, fit_files
from failuremap.cli.fit import fit_command
from failuremap.errors import InvalidArgument

SIZE = 100_001
COUNTS = [3, 5, 11]


@pytest.fixture
def gradients() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((3, SIZE), dtype=np.float32)


def saved(folder: Path, gradients: np.ndarray, update: np.ndarray) -> tuple[Path, list[Path]]:
    paths = [folder / f"g{k}.npy" for k in range(len(gradients))]
    for path, gradient in zip(paths, gradients, strict=True):
        np.save(path, gradient)
    np.save(folder / "u.npy", update)
    return folder / "u.npy", paths


def names(found: FilesFit) -> set[str]:
    return {match.rule.name for match in found.rules}


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(("weights", "rule"), [([1 / 3] * 3, "mean"), ([3 / 19, 5 / 19, 11 / 19], "weighted_mean")])
def test_the_rule_of_an_update_is_named(tmp_path, gradients, weights, rule, sampled):
    update = (np.array(weights) @ gradients).astype(np.float32)

    found = fit_files(*saved(tmp_path, gradients, update), COUNTS, sampled=sampled)

    assert found.explained
    assert found.coefficients == pytest.approx(weights, abs=1e-5)
    assert rule in names(found)
    assert not {"mean", "weighted_mean"} - {rule} & names(found)


def test_one_changed_element_is_seen_when_all_is_read(tmp_path, gradients):
    update = gradients.mean(axis=0)
    update[SIZE - 1] += 1

    found = fit_files(*saved(tmp_path, gradients, update), COUNTS)

    assert not found.explained
    assert not found.rules


def test_gradients_that_are_equal_cannot_be_told_apart(tmp_path, gradients):
    gradients[1] = gradients[0]

    found = fit_files(*saved(tmp_path, gradients, gradients.mean(axis=0)), COUNTS)

    assert np.isinf(found.errors).all()
    assert not found.rules or found.coefficients == pytest.approx([1 / 3] * 3, abs=1e-4)


@pytest.mark.parametrize("size", [1, 5, 4096, 4097])
def test_small_files_are_read_whole(tmp_path, size):
    gradients = np.random.default_rng(2).normal(size=(1, size))

    found = fit_files(*saved(tmp_path, gradients, 2 * gradients[0]))

    assert found.coefficients == pytest.approx([2.0])


@pytest.mark.parametrize("sampled", [False, True])
def test_a_number_that_is_not_finite_is_refused(tmp_path, gradients, sampled):
    gradients[1] = np.nan
    update, paths = saved(tmp_path, gradients, gradients[0])

    with pytest.raises(
        InvalidArgument, match=r"g1\.npy holds numbers that are not finite; expected a gradient without"
    ):
        fit_files(update, paths, sampled=sampled)


def test_files_that_are_not_gradients_are_refused_in_a_sentence(tmp_path, gradients):
    update, paths = saved(tmp_path, gradients, gradients[0])
    bad = tmp_path / "bad.npy"
    cases = {
        "cannot be read: No such file": lambda: bad.unlink(missing_ok=True),
        "is no .npy file; write one with numpy.save": lambda: bad.write_bytes(b"PK zip"),
        "holds dtype=<i8; expected float16, float32 or float64": lambda: np.save(bad, np.arange(SIZE)),
        "is stored by columns": lambda: np.save(bad, np.asfortranarray(np.ones((2, 3)))),
        "ends early: its header promises 100001 numbers": lambda: bad.write_bytes(paths[0].read_bytes()[:-5]),
        "holds 7 numbers and .*u.npy 100001; one model": lambda: np.save(bad, np.ones(7)),
    }
    for message, make in cases.items():
        make()
        with pytest.raises(InvalidArgument, match=message):
            fit_files(update, [paths[0], bad])
    with pytest.raises(InvalidArgument, match=r"len\(counts\)=2 for 3 contributions; give one for each"):
        fit_files(update, paths, [1, 2])


def test_the_command_prints_coefficients_and_the_rule(tmp_path, gradients):
    update, paths = saved(tmp_path, gradients, gradients.mean(axis=0))

    done = CliRunner().invoke(
        fit_command, ["--update", str(update), "--counts", "3,5,11", *map(str, paths)], standalone_mode=False
    )

    assert done.return_value == 0
    assert "0.333333 ± " in done.output
    assert "rule: mean" in done.output


def test_the_command_says_that_an_update_is_something_else(tmp_path, gradients):
    update, paths = saved(tmp_path, gradients[:2], gradients[2])

    done = CliRunner().invoke(fit_command, ["--update", str(update), *map(str, paths)], standalone_mode=False)

    assert done.return_value == 1
    assert "no combination of these gradients" in done.output
