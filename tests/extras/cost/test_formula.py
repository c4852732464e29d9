"""The cost of an hour, of samples and of a training run."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras.cost.formula import MILLION, HourlyCost, RangeEnd
from extras.cost.prices import Amount, EnergyPrice, SystemPrice

exactly = Amount.build_exact
PLAIN = SystemPrice(match="*", hourly=exactly(36.0))
BOUGHT = SystemPrice(
    match="*",
    price=exactly(8766.0),
    lifetime_years=exactly(1.0),
    utilisation=exactly(0.5),
    idle_w=exactly(100.0),
    rest_w=exactly(50.0),
)
TARIFF = EnergyPrice(per_kwh=exactly(0.2), pue=exactly(1.5))


def test_a_rented_hour_buys_samples() -> None:
    """36 an hour are a hundredth a second: at 100 samples/s a million takes 10,000 s."""
    assert HourlyCost(price=PLAIN).compute_samples_price(MILLION, 100.0).value == pytest.approx(
        100.0
    )
    assert HourlyCost(price=PLAIN).compute_training_price(30.0).value == pytest.approx(18.0)


def test_rented_time_is_billed_in_whole_units() -> None:
    """Ten minutes and a second of an hourly bill are an hour."""
    hourly = replace(PLAIN, billing_s=exactly(3600.0))
    assert HourlyCost(price=hourly).compute_training_price(10.01).value == pytest.approx(36.0)
    assert HourlyCost(price=hourly).compute_training_price(60.01).value == pytest.approx(72.0)


def test_energy_is_that_of_the_work_and_of_the_hours_without_it() -> None:
    """K = 1 / 0.5 + e(200 + 50) + e(100) x 0.5 / 0.5, with e(W) = W x 1.5 x 0.2 / 1000: idle watts
    are those at the plug, so the rest counts once.
    """
    rate = HourlyCost(price=BOUGHT, energy=TARIFF, watts=200.0)
    assert rate.compute_useful_hour_price() == pytest.approx(2 + 0.075 + 0.03)
    assert (
        rate.formula
        == "K = 8,766 / (1 y x 8,766 h) / 0.5 + (200 + 50) W x 1.5 x 0.2 / 1000 + 100 W x 1.5 x 0.2"
        " / 1000 x (1 - 0.5) / 0.5 = 2.105 per useful hour"
    )
    assert (
        HourlyCost(price=BOUGHT, energy=TARIFF).compute_useful_hour_price() == 2
    )  # nothing was measured: nothing is estimated
    assert (
        HourlyCost(price=PLAIN, energy=TARIFF, watts=200.0).compute_useful_hour_price() == 36
    )  # energy is included in the rent


def test_a_formula_has_no_exponent() -> None:
    """A machine of 1.2 million was bought for 1.23457e+06."""
    price = replace(BOUGHT, price=exactly(1234567.0), utilisation=exactly(1.0))
    assert HourlyCost(price=price).formula.startswith("K = 1,234,567 / (1 y x 8,766 h) = 140.8")


def test_the_ratio_of_a_published_study() -> None:
    """A GPU server (price 1, energy 1/7 of it) against CPU servers of equal work (12 and 20/7):
    13.0 times the cost.

    Source: NVIDIA, V100 inference on HGX-1 beside dual-socket servers: 1/12 of the cost, 1/20 of
    the power, 13 times better cost of ownership.
    """
    tariff = EnergyPrice(per_kwh=exactly(1000.0))  # an hour at one watt costs 1
    one = SystemPrice(match="*", hourly=None, yearly=exactly(8766.0))
    gpu = HourlyCost(price=one, energy=tariff, watts=1 / 7).compute_useful_hour_price()
    cpu = HourlyCost(
        price=replace(one, yearly=exactly(12 * 8766.0)), energy=tariff, watts=20 / 7
    ).compute_useful_hour_price()
    assert cpu / gpu == pytest.approx(13.0, abs=0.01)


@given(st.floats(1e-2, 1e6), st.floats(1e-2, 1e6), st.floats(0, 1e4))
def test_cost_falls_as_the_rate_grows_and_grows_with_power(
    first: float, second: float, watts: float
) -> None:
    """As 1/R, and never less for more watts."""
    rate = HourlyCost(price=BOUGHT, energy=TARIFF, watts=watts)
    assert rate.compute_samples_price(MILLION, first).value * first == pytest.approx(
        rate.compute_samples_price(MILLION, second).value * second
    )
    assert (
        replace(rate, watts=watts + 1).compute_useful_hour_price()
        > rate.compute_useful_hour_price()
    )


def test_ranges_of_prices_give_a_range_of_costs() -> None:
    """The ends that fit: a high utilisation makes an hour cheap."""
    wide = replace(BOUGHT, utilisation=Amount(value=0.5, low=0.25, high=1.0, source="s"))
    rate = HourlyCost(price=wide, energy=TARIFF, watts=200.0)
    told = rate.compute_samples_price(MILLION, 1000.0)
    assert told.low < told.value < told.high
    assert rate.compute_useful_hour_price(RangeEnd.LOW) == pytest.approx(1 + 0.075)
