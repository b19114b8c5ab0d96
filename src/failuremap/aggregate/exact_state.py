"""The state of an exact sum: float64 numbers, their errors where there are any, and fractions for the little left."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from failuremap.aggregate.exact_formats import Format, as_format
from failuremap.aggregate.exact_rounding import round_fraction, round_sum
from failuremap.aggregate.exact_terms import Array, terms, two_sum

_BLOCK = 1 << 14  # elements worked on at a time: their float64 temporaries stay in the cache
_MANTISSA_BITS, _LARGEST_EXPONENT = 53, 1023  # float64's
_DENSE_ABOVE = 1 / 64  # share of elements with an error, above which errors are kept as an array


class ExactSum:
    """The exact sum of weighted flat arrays; one rounding, when it is asked for.

    Args:
        size: Elements D of each array.
    """

    def __init__(self, size: int) -> None:
        self.hi = np.zeros(size)
        self.lo: Array | None = None
        self.rest: dict[int, Fraction] = {}

    def add(self, values_D: Array, form: Format | None = None, weight: int = 1) -> None:
        """Adds weight * values, weight 1 or more; the values are of a format's storage, their dtype's if not given."""
        widen = (form or as_format(values_D.dtype)).widen
        with np.errstate(all="ignore"):
            for block in _blocks(self.hi.size):
                values = self._without_overflow(widen(values_D[block]), weight, block.start)
                for term in terms(values, weight if weight.bit_length() <= _LARGEST_EXPONENT else 1):
                    self._add_term(term, block)

    def merge(self, other: ExactSum) -> None:
        """Adds another sum of this size, which is left as it is."""
        self.add(other.hi)
        if other.lo is not None:
            self.add(other.lo)
        for index, rest in other.rest.items():
            self._keep(index, rest)

    def rounded(self, divisor: int, dtype: np.dtype[Any] | Format) -> Array:
        """Returns the sum over a whole number, each element rounded once to the nearest of a format.

        An exact 0 is +0.0, and every NaN is the same one: signs and payloads would depend on the order.
        """
        form = as_format(dtype)
        out = np.empty(self.hi.size, form.storage)
        with np.errstate(all="ignore"):
            for block in _blocks(self.hi.size):
                out[block] = self._rounded_block(block, divisor, form)
        for index in self.rest:
            if np.isfinite(self.hi[index]):
                out[index] = round_fraction(self._exact(index) / divisor, form)
        return out

    def _rounded_block(self, block: slice, divisor: int, form: Format) -> Array:
        hi, lo = self.hi[block], None
        if divisor.bit_length() > _MANTISSA_BITS:
            return self._divided_exactly(block, divisor, form)
        if self.lo is not None:
            hi, lo = two_sum(hi, self.lo[block])
            lo[~np.isfinite(hi)] = 0.0
        hi = np.where(np.isnan(hi), np.nan, hi)
        values, doubtful = round_sum(hi, lo, divisor, form)
        overflown = ~np.isfinite(hi) & np.isfinite(self.hi[block])
        for offset in np.flatnonzero(overflown if doubtful is None else overflown | doubtful):
            values[offset] = round_fraction(self._exact(block.start + int(offset)) / divisor, form)
        return values

    def _divided_exactly(self, block: slice, divisor: int, form: Format) -> Array:
        """Divides by a number that float64 can't hold: not fast, and not needed for counts of this world."""
        values = form.narrow(np.where(np.isnan(self.hi[block]), np.nan, self.hi[block]))
        for offset in np.flatnonzero(np.isfinite(self.hi[block])):
            values[offset] = round_fraction(self._exact(block.start + int(offset)) / divisor, form)
        return values

    def _exact(self, index: int) -> Fraction:
        error = 0.0 if self.lo is None else float(self.lo[index])
        return Fraction(float(self.hi[index])) + Fraction(error) + self.rest.get(index, 0)

    def _add_term(self, term: Array, block: slice) -> None:
        hi = self.hi[block]
        total, error = two_sum(hi, term)
        bounded = np.isfinite(total)
        if not bounded.all():
            for offset in np.flatnonzero(~bounded & np.isfinite(hi) & np.isfinite(term)):
                self._keep(block.start + int(offset), Fraction(float(hi[offset])) + Fraction(float(term[offset])))
                total[offset] = 0.0
            error[~bounded] = 0.0
        self.hi[block] = total
        if error.any():
            self._add_error(error, block)

    def _add_error(self, error: Array, block: slice) -> None:
        if self.lo is None:
            lost = np.flatnonzero(error)
            if len(lost) <= _DENSE_ABOVE * error.size:
                return self._keep_all(error, lost, block.start)
            self.lo = np.zeros(self.hi.size)
        self.lo[block], lost_again = two_sum(self.lo[block], error)
        return self._keep_all(lost_again, np.flatnonzero(lost_again), block.start)

    def _without_overflow(self, values: Array, weight: int, start: int) -> Array:
        """Takes out what float64 can't hold times the weight, and keeps it as fractions."""
        if weight == 1:
            return values
        unfit = np.isfinite(values)
        if weight.bit_length() <= _LARGEST_EXPONENT:
            unfit &= ~np.isfinite(values.astype(np.float64) * float(weight))
        if not unfit.any():
            return values
        for offset in np.flatnonzero(unfit):
            self._keep(start + int(offset), Fraction(float(values[offset])) * weight)
        return np.where(unfit, values.dtype.type(0), values)

    def _keep_all(self, errors: Array, offsets: Array, start: int) -> None:
        for offset in offsets:
            self._keep(start + int(offset), Fraction(float(errors[offset])))

    def _keep(self, index: int, value: Fraction) -> None:
        self.rest[index] = self.rest.get(index, Fraction(0)) + value


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))
