"""Files of prices: what is taken from them, and what is refused."""

from pathlib import Path

import pytest

from extras.cost.prices import HOURS_PER_YEAR, read_prices
from suite.errors import RequestError

EXAMPLE = Path(__file__).parents[3] / "examples" / "prices.toml"
BOUGHT = (
    'currency = "USD"\ndate = "2026-11-01"\n[energy]\nper_kwh = { value = 0.12, source = "s" }\npue'
    ' = { value = 1.3, source = "s" }\n[[system]]\nmatch = "*"\nprice = { value = 21000, low ='
    ' 20000, high = 30000, source = "s" }\nlifetime_years = { value = 4, low = 3, high = 5, source'
    ' = "s" }\nutilisation = { value = 0.6, source = "s" }\n'
)


def test_the_example_is_a_file_of_prices() -> None:
    """The page points to it."""
    prices = read_prices(EXAMPLE)
    bought, rented = (
        prices.find_price("host", "NVIDIA A100-SXM4"),
        prices.find_price("host-torch-fp32", ""),
    )
    assert (
        bought
        and not bought.is_rented
        and bought.per_hour.value == pytest.approx(21000 / (4 * HOURS_PER_YEAR) + 0.05)
    )
    assert rented and rented.is_rented and rented.per_hour.value == 0.4


def test_the_range_of_an_hour_takes_the_ends_that_fit(tmp_path: Path) -> None:
    """Cheapest is a low price over a long life, not a low price over a short one."""
    path = tmp_path / "prices.toml"
    path.write_text(BOUGHT)
    (price,) = read_prices(path).systems
    hour = price.per_hour
    assert (hour.low, hour.high) == (
        pytest.approx(20000 / 5 / HOURS_PER_YEAR),
        pytest.approx(30000 / 3 / HOURS_PER_YEAR),
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("0.6", "0", "utilisation 0; required: a number above 0"),
        ("0.6", "1.2", "utilisation 1.2; required: above 0, at most 1"),
        ("1.3", "0.9", "pue 0.9; required: at least 1"),
        ("per_kwh", "per_khw", "without per_kwh"),
        ("lifetime_years", "lifetime_year", "unknown lifetime_year"),
        ("low = 20000", "low = 22000", "22,000 to 30,000 does not contain 21,000"),
        ('date = "2026-11-01"\n', "", "date is missing"),
        ('"2026-11-01"', '"banana"', 'date "banana"; required: a date'),
        ('"2026-11-01"', '"20261101"', "required: a date, as in 2026-11-01"),
        ('"2026-11-01"', '"2026-13-01"', "required: a date"),
        ('"USD"', '""', "required: three capital letters, as in USD"),
        ('"USD"', '"dollars"', "required: three capital letters"),
        (
            'match = "*"\n',
            'match = "*"\nhourly = { value = 1, source = "s" }\n',
            "give either hourly, yearly or price",
        ),
        (
            'utilisation = { value = 0.6, source = "s" }',
            'billing_s = { value = 60, source = "s" }',
            "billing_s applies only to rented systems",
        ),
        (
            'price = { value = 21000, low = 20000, high = 30000, source = "s" }',
            'hourly = { value = 1, source = "s" }',
            "belong together",
        ),
        ('source = "s" }\npue', 'source = " " }\npue', "an amount is"),
        ("[energy]", "[power]", "the file: unknown power"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    """With the file and the reason: a misspelt key would be left out of the sum without a word."""
    path = tmp_path / "prices.toml"
    assert old in BOUGHT
    path.write_text(BOUGHT.replace(old, new))
    with pytest.raises(RequestError, match=words) as error:
        read_prices(path)
    assert str(path) in str(error.value)
