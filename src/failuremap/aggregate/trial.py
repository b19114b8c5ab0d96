"""One trial of a backend: a case of a law is run, and its result compared with what the law says."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from failuremap.aggregate import aggregate
from failuremap.aggregate.exact_formats import Format
from failuremap.aggregate.exact_rounding import round_fraction
from failuremap.aggregate.laws import Call, Case

Combine = Callable[[list[Any], list[int] | None, str], Any]
_NO_UPDATE = "no update: None, or no element"


class Trial:
    """One case, run on a backend.

    Args:
        combine: The backend, as `check_backend` takes it.
        case: What to call it with, and what to compare the result with.
        form: The format of the numbers; those of bfloat16 come in arrays of float32.
        exact: Whether the result must be the exact one, rounded once.
    """

    def __init__(self, combine: Combine, case: Case, form: Format, exact: bool) -> None:
        self.combine, self.case, self.form, self.exact = combine, case, form, exact
        self.dtype = "float32" if form.name == "bfloat16" else form.name

    def failure(self) -> str:
        """Runs the case; returns a counterexample in words, "" where the law holds."""
        call, like = self.case.call, self.case.like
        given, wrong = self._run(call)
        if like is None:
            return _words(call, self.form, wrong or self._against_exact(given))
        reference, wrong_there = self._run(like)
        if wrong_there:
            return _words(like, self.form, wrong_there)
        return _words(call, self.form, wrong or self._against(given, reference * self.case.factor))

    def _run(self, call: Call) -> tuple[Any, str]:
        """Returns the result as a flat float64 array, and what is wrong with it whatever its numbers are."""
        contributions = [self._rounded(array) for array in call.arrays("float64")]
        before = [array.copy() for array in contributions]
        counts = None if call.counts is None else list(call.counts)
        try:
            result = self.combine(contributions, counts, call.rule)
        except Exception as error:  # noqa: BLE001  whatever a backend raises is its answer
            return None, f"raised {type(error).__name__}: {error}"
        if any(array.tobytes() != copy.tobytes() for array, copy in zip(contributions, before, strict=True)):
            return None, "changed its contributions; expected them to be left as they were."
        return self._checked(result, call)

    def _checked(self, result: Any, call: Call) -> tuple[Any, str]:
        if _has_no_unit(call):
            none = result is None or np.size(result) == 0
            return np.empty(0), "" if none else f"gave {_shown(result)}; expected {_NO_UPDATE}."
        if result is None:
            return None, "gave None; expected an update."
        array = np.asarray(result)
        if (array.shape, array.dtype.name) != (call.shape, self.dtype):
            wanted = f"{call.shape} and dtype {self.dtype}"
            return None, f"gave shape {array.shape} and dtype {array.dtype}; expected shape {wanted}."
        return array.astype(np.float64).reshape(-1), ""

    def _rounded(self, array: Any) -> Any:
        return self.form.widen(self.form.narrow(array)).astype(self.dtype)

    def _exact_of(self, call: Call) -> tuple[list[Fraction], list[Fraction]]:
        """Returns the exact result, and that of the numbers without their signs."""
        there = [k for k in range(len(call.vectors)) if call.counts is None or call.counts[k]]
        arrays = [self._rounded(array).reshape(-1) for array in call.arrays("float64")]
        vectors = [[Fraction(float(number)) for number in arrays[k]] for k in there]
        counts = call.counts and [call.counts[k] for k in there]
        rule: Any = call.rule
        signed: Any = aggregate(vectors, counts or None, rule=rule)
        unsigned: Any = aggregate([[abs(number) for number in vector] for vector in vectors], counts or None, rule=rule)
        return signed, unsigned

    def _against_exact(self, given: Any) -> str:
        call = self.case.call
        if _has_no_unit(call):
            return ""
        exact, sizes = self._exact_of(call)
        if self.exact:
            nearest = [round_fraction(value, self.form) for value in exact]
            right = self.form.widen(np.array(nearest, self.form.storage)).astype(np.float64)
            return (
                "" if (given == right).all() else f"gave {given.tolist()}; expected {right.tolist()}, to the last bit."
            )
        within = all(
            np.isfinite(one) and abs(Fraction(float(one)) - value) <= self._bound(value, size, len(call.vectors))
            for one, value, size in zip(given, exact, sizes, strict=True)
        )
        return "" if within else f"gave {given.tolist()}; expected {[float(value) for value in exact]}."

    def _against(self, given: Any, reference: Any) -> str:
        assert self.case.like
        _, sizes = self._exact_of(self.case.call)
        count = max(len(self.case.call.vectors), len(self.case.like.vectors))
        bounds = [0 if self.exact else 2 * float(self._bound(size, size, count)) for size in sizes]
        with np.errstate(invalid="ignore"):
            within = (np.abs(given - reference) <= bounds).all()
        times = f"{self.case.factor} times " if self.case.factor != 1 else ""
        wanted = f"{reference.tolist()}, which is {times}what {self.case.like} gave."
        return "" if within else f"gave {given.tolist()}; expected {wanted}"

    def _bound(self, value: Fraction, size: Fraction, count: int) -> Fraction:
        """Returns the roundings of K + 2 operations on numbers of this size; of float32 for narrower formats."""
        accumulated = (count + 2) * size / 2 ** max(self.form.bits, 24)
        rounded = abs(value) / 2**self.form.bits if self.form.bits < 24 else Fraction(0)
        return Fraction(accumulated + rounded)


def _words(call: Call, form: Format, wrong: str) -> str:
    return f"    {call}, {form.name}\n    {wrong}" if wrong else ""


def _has_no_unit(call: Call) -> bool:
    return not call.vectors or (call.counts is not None and not any(call.counts))


def _shown(result: Any) -> str:
    return str(result.tolist() if hasattr(result, "tolist") else result)
