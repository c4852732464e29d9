"""`podium curve --points` takes a list as people type it."""

import click
import pytest

from harness.commands.curve import curve, parse_concurrencies


@pytest.mark.parametrize("text", ["1,2,8", "1, 2, 8", " 8 ,2,1"])
def test_spaces_between_points_are_nothing(text: str) -> None:
    assert parse_concurrencies(click.Context(curve), curve.params[0], text) == (1, 2, 8)


@pytest.mark.parametrize("text", ["1,,2", "1 2", "1,1", "0", ""])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="use different comma-separated numbers"):
        parse_concurrencies(click.Context(curve), curve.params[0], text)
