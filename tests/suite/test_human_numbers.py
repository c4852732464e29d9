"""Numbers as people read them: an exponent, digits that nobody measured, and digits that are lost."""

import math
import re

import pytest

from suite.human_numbers import (
    count_known_decimals,
    format_plain_number,
    format_rounded_number,
    format_share_as_percent,
    format_significant_number,
    format_whole_digits,
)

EXPONENT = re.compile(r"[0-9]e[+-]?[0-9]", re.IGNORECASE)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (32650.4, 4, "32,650"),
        (0.0125, 4, "0.0125"),
        (8146140.0, 6, "8,146,140"),
        (685.0, 4, "685"),
        (11500.0, 2, "12,000"),
        (0.0, 4, "0"),
        (-32650.4, 4, "-32,650"),
    ],
)
def test_a_number_keeps_its_first_digits(value: float, digits: int, text: str) -> None:
    assert format_plain_number(value, digits) == text


@pytest.mark.parametrize("exponent", range(-308, 309, 7))
def test_no_number_has_an_exponent(exponent: int) -> None:
    for value in (3.14159 * 10.0**exponent, -(10.0**exponent)):
        texts = [format_plain_number(value), format_significant_number(value, 3)]
        texts += [format_whole_digits(value), format_share_as_percent(value)]
        assert not any(map(EXPONENT.search, texts)), texts
        assert max(map(len, texts)) < 40


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_no_number_is_told_in_words(value: float) -> None:
    for text in (format_plain_number(value), format_whole_digits(value)):
        assert "inf" not in text and "nan" not in text


def test_digits_before_the_point_stay() -> None:
    assert format_whole_digits(123456.7) == "123,457"
    assert format_share_as_percent(1100.0) == "110,000 %"
    assert format_share_as_percent(0.1149) == "11 %"


@pytest.mark.parametrize(
    ("value", "low", "high", "disturbed", "text"),
    [
        (7.2229, None, None, True, "7.2"),
        (7.2229, None, None, False, "7.22"),
        (180.70, None, None, True, "180"),
        (0.3142, 0.0721, 1.3689, False, "0.31"),
        (30990.0, 20114.38, 47745.95, False, "31,000"),
        (832060.0, 824050.4, 840147.4, False, "832,000"),
        (9.6864, 0.0281, 3343.56, False, "9.7"),
        (5.0, 5.0, 5.0, False, "5.00"),
    ],
)
def test_a_figure_has_the_digits_that_its_runs_show(
    value: float, low: float | None, high: float | None, disturbed: bool, text: str
) -> None:
    decimals = count_known_decimals(value, low, high, disturbed=disturbed)
    assert format_rounded_number(value, decimals) == text
