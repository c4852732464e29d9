"""Power sources by name: which are read, and which cannot be."""

from pathlib import Path

import pytest

from harness.machine.power import sysfs
from harness.machine.power.selection import choose_power_sources, parse_power_option
from suite.errors import MissingError, RequestError


def test_names_and_periods_that_there_are_not_are_refused() -> None:
    with pytest.raises(RequestError, match="unknown power source 'rappl'; did you mean 'rapl'"):
        parse_power_option("rappl")
    assert parse_power_option("off") == [] and {
        "rapl",
        "nvml",
        "hwmon",
        "ina3221",
        "tegrastats",
    } <= set(parse_power_option("auto"))


def test_a_source_that_was_named_and_is_not_there_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PODIUM_POWER_ROOT", str(tmp_path))
    with pytest.raises(MissingError, match="--power rapl: no counters"):
        choose_power_sources("rapl", None, {})
    assert choose_power_sources("auto", None, {}).linger_s == pytest.approx(0.2)


def test_auto_is_not_one_of_several() -> None:
    """`unknown power source 'auto'; did you mean 'auto'?`"""
    with pytest.raises(RequestError, match="auto excludes others"):
        parse_power_option("auto,rapl")


@pytest.mark.parametrize("text", ["-5", "1_000", "9" * 23, "+7", "0x10", ""])
def test_a_counter_is_a_whole_number_of_the_kernel(tmp_path: Path, text: str) -> None:
    """One value of 77 bits made the whole file unreadable, other channels too."""
    (tmp_path / "energy_uj").write_text(text)
    with pytest.raises(OSError, match="no number"):
        sysfs.read_sysfs_number(tmp_path / "energy_uj")
