"""Numbers that remember how large everything was that went into them, for a bound on what rounding may cost.

A repair that is given such numbers computes its contract's exact answer, and beside it

    size    the first-order bound, in floats: an operation that rounds adds at most u * size of its result, u = 2^-53
    grain   what the number is a multiple of, as 1/grain, as long as nothing was divided
    rounded whether something was divided; until then a float64 may hold all partial results exactly
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

# int or Fraction; the checker of types takes the product of the two for an object
Rational = Any
_ROOT_BITS = 400


class Exact:
    """An exact number, and a bound on the numbers that it was made of.

    Example:
        >>> total = Exact.of(0.5) + Exact.of(-3)
        >>> total.value, total.size, total.grain
        (Fraction(-5, 2), 3.5, 2)
    """

    __slots__ = ("grain", "rounded", "size", "value")

    def __init__(self, value: Rational, size: float, grain: int, rounded: bool) -> None:
        self.value, self.size, self.grain, self.rounded = value, size, grain, rounded

    @classmethod
    def of(cls, number: float | Fraction) -> Exact:
        """Takes a finite number as it is."""
        if type(number) is int:
            return cls(number, float(abs(number)), 1, False)
        value: Rational = int(number) if number == int(number) else Fraction(number)
        return cls(value, float(abs(value)), value.denominator, False)

    @property
    def held_exactly(self) -> bool:
        """True where float64 holds this number and whatever partial sums lead to it."""
        return not self.rounded and self.size <= math.ldexp(1.0, 53 - (self.grain - 1).bit_length())

    def __repr__(self) -> str:
        return f"Exact({self.value})"

    def __add__(self, other: Any) -> Any:
        if type(other) is Exact:
            return _add(self, other)
        return _combined(self, other, _add, float.__add__)

    def __radd__(self, other: Any) -> Any:
        if type(other) is int and other == 0:
            return self  # where a sum starts
        return _combined(self, other, _add, float.__add__)

    def __sub__(self, other: Any) -> Any:
        return _combined(self, other, lambda a, b: _add(a, -b), float.__sub__)

    def __rsub__(self, other: Any) -> Any:
        return _combined(self, other, lambda a, b: _add(b, -a), lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        if type(other) is Exact:
            return _multiply(self, other)
        return _combined(self, other, _multiply, float.__mul__)

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, list):
            return other * self.__index__()
        return _combined(self, other, _multiply, float.__mul__)

    def __truediv__(self, other: Any) -> Any:
        return _combined(self, other, _divide, float.__truediv__)

    def __rtruediv__(self, other: Any) -> Any:
        return _combined(self, other, lambda a, b: _divide(b, a), lambda a, b: b / a)

    def __mod__(self, other: Any) -> Any:
        return self.value % _plain(other)

    def __rmod__(self, other: Any) -> Any:
        return _plain(other) % self.value

    def __floordiv__(self, other: Any) -> Any:
        return self.value // _plain(other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _plain(other) // self.value

    def __neg__(self) -> Exact:
        return Exact(-self.value, self.size, self.grain, self.rounded)

    def __abs__(self) -> Exact:
        return Exact(abs(self.value), self.size, self.grain, self.rounded)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == _plain(other))

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < _plain(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= _plain(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > _plain(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= _plain(other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return nearest(self.value)

    def __index__(self) -> int:
        if self.value.denominator != 1:
            raise TypeError(f"{self.value} is no whole number")
        return int(self.value)


def nearest(value: Rational) -> float:
    """Returns the float that is nearest to a rational number, as `float` does in four times the time."""
    quotient: float = value.numerator / value.denominator
    return quotient


def root(square: Exact) -> Exact:
    """Returns the square root, exact to far more digits than any float has."""
    if not square.value:
        return Exact(0, 0.0, 1, True)
    scaled = Fraction(square.value)
    shift = max(0, _ROOT_BITS + scaled.denominator.bit_length() - scaled.numerator.bit_length())
    shift += shift % 2
    value = Fraction(math.isqrt(int(scaled * 2**shift)), 2 ** (shift // 2))
    return Exact(value, square.size / nearest(value), 1, True)


def lifted(given: Any) -> Any:
    """Returns the same input with each finite number exact; what is not finite, and all else, stays as it is."""
    kind = type(given)
    if kind is list:
        return [Exact(part, float(abs(part)), 1, False) if type(part) is int else lifted(part) for part in given]
    if kind in (int, float, Fraction):
        return Exact.of(given) if math.isfinite(given) else given
    if kind is tuple:
        return tuple(map(lifted, given))
    if kind is dict:
        return {key: lifted(value) for key, value in given.items()}
    return given


def _combined(
    one: Exact, other: Any, exact: Callable[[Exact, Exact], Exact], special: Callable[[float, float], float]
) -> Any:
    kind = type(other)
    if kind is Exact:
        return exact(one, other)
    if kind not in (int, float, Fraction, bool):
        return NotImplemented
    if kind is float and not math.isfinite(other):
        return special(float(one), other)
    return exact(one, Exact.of(other))


def _add(one: Exact, other: Exact) -> Exact:
    grain = max(other.grain, one.grain)
    return Exact(one.value + other.value, one.size + other.size, grain, one.rounded or other.rounded)


def _multiply(one: Exact, other: Exact) -> Exact:
    size = one.size * abs(nearest(other.value)) + abs(nearest(one.value)) * other.size
    return Exact(one.value * other.value, size, one.grain * other.grain, one.rounded or other.rounded)


def _divide(one: Exact, other: Exact) -> Exact:
    value = Fraction(one.value, other.value)
    return Exact(value, (one.size + abs(nearest(value)) * other.size) / abs(nearest(other.value)), 1, True)


def _plain(number: Any) -> Any:
    return number.value if isinstance(number, Exact) else number
