"""Values and lists as short text."""

from __future__ import annotations

import math

import pytest

from failuremap.audit.report.words import clean, decimal, plural, power, runs, shorten, some


def test_white_space_becomes_one_space_and_control_characters_are_shown_as_escapes():
    assert clean("a\n\n  b\t\x1b[31m\u202e\U000e0001") == "a b \\u001b[31m\\u202e\\udb40\\udc01"


def test_printable_text_of_any_language_is_left_as_it_is():
    assert clean("Gewicht größer 損失") == "Gewicht größer 損失"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.00"),
        (0.0, "0.00"),
        (2.514, "2.51"),
        (0.004, "4e-3"),
        (31415.9, "3e4"),
        (-1.2e-9, "-1e-9"),
        (math.nan, "not a number"),
        (math.inf, "infinite"),
        (-math.inf, "-infinite"),
    ],
)
def test_a_decimal_never_hides_its_value(value: float, text: str):
    assert decimal(value) == text


def test_errors_are_one_digit_and_a_power_of_ten():
    assert [power(value) for value in (2.1e-8, 0.0, 30.0, math.nan)] == ["2e-8", "0", "3e1", "not a number"]


def test_a_count_of_one_is_singular_and_a_fraction_is_kept():
    assert [plural(1, "token"), plural(1024, "token"), plural(38.5, "token")] == [
        "1 token",
        "1,024 tokens",
        "38.5 tokens",
    ]


def test_a_count_that_is_no_number_is_still_written():
    assert plural(math.nan, "token") == "nan tokens"


def test_runs_of_steps_are_joined():
    assert [runs([3, 1, 2, 6, 8, 9]), runs([4]), runs(range(1, 20, 2))] == ["1-3, 6, 8-9", "4", "1, 3, 5, 7, …"]


def test_the_first_names_are_given_and_the_others_counted():
    assert some(["a", "b", "c", "d"], 9) == "a, b, c and 6 more"
    assert some(["a", "b"], 2) == "a, b"


def test_shortened_text_has_the_length_asked_for():
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"
