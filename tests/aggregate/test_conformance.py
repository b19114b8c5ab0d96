"""check_backend: our own backends keep every law; each wrong one breaks the laws that it should, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from failuremap import check_backend
from failuremap.aggregate import aggregate
from failuremap.errors import InvalidArgument, LawBroken

LAWS = {
    "definition", "unequal counts", "one contribution", "order", "split", "scale", "zero count", "nothing counted",
    "shape", "precision",
}  # fmt: skip


def by_arrays(contributions: Any, counts: Any, rule: Any) -> Any:
    """Combine as NumPy arrays."""
    return aggregate(contributions, counts, rule=rule)


def by_lists(contributions: Any, counts: Any, rule: Any) -> Any:
    """Combine as lists; the dtype is put back."""
    combined = [
        aggregate(list(rows), counts, rule=rule)
        for rows in zip(*(c.reshape(-1, 1).tolist() for c in contributions), strict=True)
    ]
    if not contributions or (counts and not any(counts)):
        return None
    first = contributions[0]
    return np.array(combined, first.dtype).reshape(first.shape)


@pytest.mark.parametrize("backend", [by_arrays, by_lists])
def test_our_backends_keep_every_law_to_the_last_bit(backend: Any) -> None:
    dtypes = ["float64"] if backend is by_lists else ["float16", "float32", "float64"]

    report = check_backend(backend, dtypes=dtypes, exact=True)

    assert (set(report.case_counts), report.unchecked) == (LAWS, ())


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_our_backend_for_tensors_keeps_every_law_to_the_last_bit(dtype: str) -> None:
    import torch

    def by_tensors(contributions: Any, counts: Any, rule: Any) -> Any:
        tensors = [torch.from_numpy(array).to(getattr(torch, dtype)) for array in contributions]
        update = aggregate(tensors, counts, rule=rule)
        return update if not tensors or update is None else update.to(torch.from_numpy(contributions[0]).dtype).numpy()

    assert check_backend(by_tensors, dtypes=[dtype], exact=True).unchecked == ()


def weights_of(contributions: Any, counts: Any, rule: str) -> tuple[Any, float]:
    """Return weights and divisor, as most people would write them."""
    weights = counts or [1] * len(contributions)
    return weights, 1 if rule == "sum" else sum(weights)


def careful(contributions: Any, counts: Any, rule: str, *, divisor: float = 0, dtype: Any = np.float64) -> Any:
    """Combine right, or with another divisor, or added up in another dtype."""
    weights, total = weights_of(contributions, counts, rule)
    kept = [(c, w) for c, w in zip(contributions, weights, strict=True) if w]
    if not kept:
        return None
    with np.errstate(all="ignore"):
        update = np.zeros(kept[0][0].shape, dtype)
        for contribution, weight in kept:
            update = update + contribution.astype(dtype) * dtype(weight)
        return (update / dtype(divisor or total)).astype(contributions[0].dtype)


def off_by_one(contributions: Any, counts: Any, rule: str) -> Any:
    return careful(contributions, counts, rule, divisor=weights_of(contributions, counts, rule)[1] + 1)


def drops_the_last(contributions: Any, counts: Any, rule: str) -> Any:
    if len(contributions) < 2:
        return careful(contributions, counts, rule)
    update = careful(contributions[:-1], counts and counts[:-1], rule)
    return np.zeros_like(contributions[0]) if update is None and any(counts) else update


def divides_twice(contributions: Any, counts: Any, rule: str) -> Any:
    update = careful(contributions, counts, rule)
    return None if update is None else (update / len(contributions)).astype(update.dtype)


def multiplies_by_zero(contributions: Any, counts: Any, rule: str) -> Any:
    weights, total = weights_of(contributions, counts, rule)
    if not contributions or not sum(weights):
        return None
    with np.errstate(all="ignore"):
        scaled = [c.astype(np.float64) * w for c, w in zip(contributions, weights, strict=True)]
        return (sum(scaled) / total).astype(contributions[0].dtype)


def ignores_counts(contributions: Any, counts: Any, rule: str) -> Any:
    return careful(contributions, counts and [int(count > 0) for count in counts], rule)


def weighs_the_first_double(contributions: Any, counts: Any, rule: str) -> Any:
    weights, total = weights_of(contributions, counts, rule)
    if len(contributions) < 2:
        return careful(contributions, counts, rule)
    update = careful([2 * contributions[0], *contributions[1:]], weights, "sum")
    return None if update is None else (update / total).astype(update.dtype)


def forgets_repetitions(contributions: Any, counts: Any, rule: str) -> Any:
    first = {contribution.tobytes(): k for k, contribution in reversed(list(enumerate(contributions)))}
    kept = sorted(first.values())
    return careful([contributions[k] for k in kept], counts and [counts[k] for k in kept], rule)


def clips(contributions: Any, counts: Any, rule: str) -> Any:
    update = careful(contributions, counts, rule)
    return None if update is None else np.clip(update, -1e3, 3).astype(update.dtype)


def zeros_for_no_update(contributions: Any, counts: Any, rule: str) -> Any:
    update = careful(contributions, counts, rule)
    return np.zeros(1) if update is None else update


def flattens(contributions: Any, counts: Any, rule: str) -> Any:
    update = careful(contributions, counts, rule)
    return None if update is None else update.reshape(-1)


def widens(contributions: Any, counts: Any, rule: str) -> Any:
    update = careful(contributions, counts, rule)
    return None if update is None else update.astype(np.float64)


def adds_in_place(contributions: Any, counts: Any, rule: str) -> Any:
    update = careful(contributions, counts, rule)
    if update is not None:
        contributions[0][...] = update
    return update


def fails(contributions: Any, counts: Any, rule: str) -> Any:
    raise ZeroDivisionError("division by zero")


WRONG = {
    off_by_one: LAWS - {"order", "nothing counted"},
    drops_the_last: LAWS - {"one contribution", "scale", "nothing counted"},
    divides_twice: LAWS - {"one contribution", "order", "scale", "nothing counted"},
    multiplies_by_zero: {"zero count"},
    ignores_counts: {"unequal counts", "zero count", "split", "shape"},
    weighs_the_first_double: LAWS - {"one contribution", "scale", "nothing counted"},
    forgets_repetitions: {"definition", "unequal counts", "order", "split", "precision"},
    clips: LAWS - {"one contribution", "order", "split", "nothing counted"},
    zeros_for_no_update: {"nothing counted"},
    flattens: {"shape"},
    widens: LAWS - {"nothing counted"},
    adds_in_place: LAWS - {"one contribution", "nothing counted"},
    fails: LAWS,
}


def broken_laws(backend: Any, **settings: Any) -> tuple[set[str], str]:
    """Return the laws that check_backend finds broken, and what it says."""
    with pytest.raises(LawBroken) as caught:
        check_backend(backend, **settings)
    said = str(caught.value)
    return {paragraph.split(":")[0] for paragraph in said.split("\n\n")[1:]}, said


@pytest.mark.parametrize("backend", WRONG)
def test_a_wrong_backend_breaks_its_laws(backend: Any) -> None:
    assert broken_laws(backend, dtypes=["float32"])[0] == WRONG[backend]


def test_each_law_is_broken_by_some_backend_that_keeps_others() -> None:
    telling = [laws for laws in WRONG.values() if laws != LAWS]

    assert set().union(*telling) == LAWS


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_adding_up_in_half_precision_breaks_the_law_of_precision(dtype: str) -> None:
    torch = pytest.importorskip("torch")

    def narrow(contributions: Any, counts: Any, rule: str) -> Any:
        tensors = [torch.from_numpy(array).to(getattr(torch, dtype)) for array in contributions]
        weights, total = weights_of(contributions, counts, rule)
        kept = [tensor * weight for tensor, weight in zip(tensors, weights, strict=True) if weight]
        return (sum(kept[1:], kept[0]) / total).to(torch.from_numpy(contributions[0]).dtype).numpy() if kept else None

    assert "precision" in broken_laws(narrow, dtypes=[dtype])[0]


def test_a_careful_backend_keeps_every_law_but_not_to_the_last_bit() -> None:
    def in_float32(contributions: Any, counts: Any, rule: str) -> Any:
        return careful(contributions, counts, rule, dtype=np.float32)

    assert check_backend(careful).unchecked == ()
    assert check_backend(in_float32, dtypes=["float32"]).unchecked == ()
    assert "definition" in broken_laws(in_float32, dtypes=["float32"], exact=True)[0]


def test_the_report_shows_the_smallest_counterexample_of_each_law() -> None:
    _, said = broken_laws(ignores_counts, dtypes=["float64"])

    assert said.startswith(
        "4 of 10 laws are broken.\n\nunequal counts: each contribution weighs as much as its count.\n"
    )
    assert (
        "    combine([[1.0], [0.0]], counts=[1, 2], rule='weighted_mean'), float64\n"
        "    gave [0.5]; expected [0.3333333333333333]." in said
    )
    assert (
        "    combine([[1.0], [0.0], [0.0]], counts=[1, 2, 3], rule='weighted_mean'), float64\n"
        "    gave [0.3333333333333333]; expected [0.5], which is what combine([[1.0], [0.0]], counts=[1, 5], rule="
        "'weighted_mean') gave." in said
    )


@pytest.mark.parametrize(
    ("backend", "law", "words"),
    [
        (fails, "definition", "raised ZeroDivisionError: division by zero"),
        (adds_in_place, "definition", "changed its contributions; expected them to be left as they were."),
        (zeros_for_no_update, "nothing counted", "gave [0.0]; expected no update: None, or no element."),
        (flattens, "shape", "gave shape (6,) and dtype float32; expected shape (2, 3) and dtype float32."),
        (lambda *_: None, "definition", "gave None; expected an update."),
        (clips, "scale", "gave [3.0]; expected [4.0], which is 2 times what combine("),
    ],
)
def test_a_counterexample_says_what_is_wrong(backend: Any, law: str, words: str) -> None:
    _, said = broken_laws(backend, dtypes=["float32"])

    (paragraph,) = [paragraph for paragraph in said.split("\n\n") if paragraph.startswith(f"{law}: ")]
    assert words in paragraph


def test_what_can_not_be_called_is_not_checked_and_said_so() -> None:
    report = check_backend(careful, rules=["sum"], contribution_counts=[2])

    assert report.unchecked == (
        "unequal counts", "one contribution", "split", "zero count", "nothing counted", "precision",
    )  # fmt: skip
    assert str(report).splitlines()[-1] == "precision         not checked"


def test_every_call_is_made_even_after_a_failure() -> None:
    """Ranks that call collectives inside `combine` must all make the same calls."""
    calls: dict[str, list[Any]] = {"right": [], "wrong": []}

    def right(contributions: Any, counts: Any, rule: str) -> Any:
        calls["right"].append((len(contributions), counts, rule))
        return careful(contributions, counts, rule)

    def wrong(contributions: Any, counts: Any, rule: str) -> Any:
        calls["wrong"].append((len(contributions), counts, rule))
        raise ValueError

    check_backend(right)
    with pytest.raises(LawBroken):
        check_backend(wrong)

    assert calls["wrong"] == calls["right"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rules": ["avg"]}, r"^rule='avg' is not known; expected one of: weighted_mean, sum, mean\.$"),
        (
            {"dtypes": ["int8"]},
            r"^dtypes: 'int8' is not known; expected some of: float16, bfloat16, float32, float64\.$",
        ),
        ({"contribution_counts": []}, r"contribution_counts=\[\]: nothing to check; give one of each, or more\.$"),
    ],
)
def test_a_setting_that_is_none_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check_backend(careful, **settings)
