"""ACPI meters on made-up trees: this project's machines have none."""

from pathlib import Path

from power_trees import channels_of, write

from extras.meters.hwmon import Hwmon
from suite.power import Grade


def test_an_acpi_meter_is_the_system_and_a_battery_is_none(tmp_path: Path) -> None:
    meter = tmp_path / "sys" / "class" / "hwmon" / "hwmon3"
    write(
        meter,
        name="power_meter",
        power1_average=345_000_000,
        power1_average_interval=1000,
        power1_accuracy="95.0%",
    )
    write(tmp_path / "sys" / "class" / "hwmon" / "hwmon4", name="coretemp", power1_average=1)
    source = Hwmon()
    (channel,) = channels_of(source, tmp_path).values()
    assert (channel.grade, channel.scope, channel.facts) == (
        Grade.METER,
        "system",
        {"averaging_ms": 1000, "accuracy_percent": "95.0"},
    )
    assert source.read(channel).value == 345_000_000
    write(meter, power1_is_battery=1)
    assert Hwmon().probe(tmp_path) == "the ACPI power meter measures a battery, not the machine"


def test_the_meters_of_grace_are_parts_of_one_another(tmp_path: Path) -> None:
    """Four meters of one superchip were four times the whole machine."""
    labels = {
        "Module Power Socket 0": 600,
        "Grace Power Socket 0": 250,
        "CPU Power Socket 0": 180,
        "SysIO Power Socket 0": 40,
    }
    for number, (label, watts) in enumerate(labels.items()):
        write(
            tmp_path / f"sys/class/hwmon/hwmon{number}",
            name="power_meter",
            power1_average=watts * 10**6,
            power1_oem_info=label,
        )
    found = channels_of(Hwmon(), tmp_path)
    assert {(channel.scope, channel.within, channel.grade) for channel in found.values()} == {
        ("module0", (), Grade.SENSOR),
        ("grace0", ("module0",), Grade.SENSOR),
        ("cpu0", ("grace0", "module0"), Grade.SENSOR),
        ("sysio0", ("grace0", "module0"), Grade.SENSOR),
    }


def test_of_two_meters_without_a_text_neither_is_the_system(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / f"sys/class/hwmon/hwmon{number}", name="power_meter", power1_average=10**8)
    assert {
        (channel.scope, channel.grade) for channel in channels_of(Hwmon(), tmp_path).values()
    } == {
        ("meter:hwmon0", Grade.SENSOR),
        ("meter:hwmon1", Grade.SENSOR),
    }
