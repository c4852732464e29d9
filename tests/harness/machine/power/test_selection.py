"""Power sources by name: which are read, and which cannot be."""

import json
from pathlib import Path

import pytest
from offered_packages import offer_package

from harness.machine.power import report, sysfs
from harness.machine.power.selection import (
    choose_power_sources,
    has_readable_power,
    parse_power_option,
)
from suite import registry
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


def test_a_broken_source_of_another_package_is_told_and_all_else_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`podium infer`, `podium doctor` and `podium power` ended, without its name in their options."""
    monkeypatch.setenv("PODIUM_POWER_ROOT", str(tmp_path))
    points = [(registry.POWER_GROUP, "solar", "podium_solar:Solar")]
    with offer_package(tmp_path, "podium_solar", {"__init__.py": "class Solar: ...\n"}, points):
        chosen = choose_power_sources("auto", None, {})
        assert not has_readable_power(chosen) and not has_readable_power(chosen)
        assert capsys.readouterr().err.count("'solar'") == 1
        assert report.list_readable_channels(tmp_path) == []
        report.print_power_sources(tmp_path, "json")
        told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["sources"]}
    assert "close: expected a method that takes ()" in told["solar"]["absent"]
    assert told["rapl"]["absent"].startswith("no counters")
