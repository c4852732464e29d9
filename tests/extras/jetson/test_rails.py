"""Rails of Jetsons on made-up trees: this project's machines are none."""

import sys
import time
from pathlib import Path

import pytest
from power_trees import channels_of, write

from extras.jetson.boards import read_boards
from extras.jetson.rails import Rails
from extras.jetson.tegrastats import Tegrastats, parse_rail_powers
from harness.machine.telemetry.process import sample_during_block
from harness.machine.telemetry.sampled import SourceOpening
from suite.measurement.power_readings import compute_channel_energies, read_power_readings
from suite.power import Grade


def hwmon_rails(root: Path, driver: str, *chips: dict[str, tuple[int, int]], board: str) -> Path:
    """INA3221 chips as kernels from 5 on show them: label -> (mV, mA)."""
    for number, chip in enumerate(chips):
        folder = (
            root / "sys/bus/i2c/drivers" / driver / f"1-004{number}" / "hwmon" / f"hwmon{number}"
        )
        for place, (label, (mv, ma)) in enumerate(chip.items(), start=1):
            write(
                folder,
                **{f"in{place}_label": label, f"in{place}_input": mv, f"curr{place}_input": ma},
            )
        write(folder, in7_label="sum of shunt voltages", in7_input=1, curr4_input=9999)
    (root / "proc/device-tree").mkdir(parents=True)
    (root / "proc/device-tree/compatible").write_bytes(board.encode() + b"\0nvidia,tegra\0")
    return root


def test_agx_orin_has_parts_and_no_total(tmp_path: Path) -> None:
    """Its 5 V rail is not the module: others call it total, and add it to its parts."""
    chip = {"VDD_GPU_SOC": (19_000, 500), "VDD_CPU_CV": (19_000, 100), "VIN_SYS_5V0": (5_000, 800)}
    root = hwmon_rails(
        tmp_path,
        "ina3221",
        chip,
        {"NC": (0, 0), "VDDQ_VDD2_1V8AO": (5_000, 200), "": (0, 0)},
        board="nvidia,p3737-0000+p3701-0000",
    )
    source = Rails()
    found = channels_of(source, root)
    assert sorted(found) == [
        "ina3221:VDDQ_VDD2_1V8AO",
        "ina3221:VDD_CPU_CV",
        "ina3221:VDD_GPU_SOC",
        "ina3221:VIN_SYS_5V0",
    ]
    assert {
        (channel.scope.partition(":")[0], channel.within, channel.grade)
        for channel in found.values()
    } == {("rail", (), Grade.SENSOR)}
    assert source.read(found["ina3221:VDD_GPU_SOC"]).value == 9_500_000


def test_orin_nano_has_an_input_rail_that_contains_the_others(tmp_path: Path) -> None:
    chip = {"VDD_IN": (5_000, 1_200), "VDD_CPU_GPU_CV": (5_000, 300), "VDD_SOC": (5_000, 250)}
    root = hwmon_rails(tmp_path, "ina3221", chip, board="nvidia,p3768-0000+p3767-0005")
    source = Rails()
    found = channels_of(source, root)
    assert {name: (channel.scope, channel.within) for name, channel in found.items()} == {
        "ina3221:VDD_IN": ("module", ()),
        "ina3221:VDD_CPU_GPU_CV": ("rail:VDD_CPU_GPU_CV", ("module",)),
        "ina3221:VDD_SOC": ("rail:VDD_SOC", ("module",)),
    }
    assert source.read(found["ina3221:VDD_IN"]).value == 6_000_000


def test_tx2_is_read_in_the_older_form(tmp_path: Path) -> None:
    """L4T 32: an iio device with milliwatts."""
    folder = tmp_path / "sys/bus/i2c/drivers/ina3221x/0-0041/iio:device1"
    write(
        folder,
        rail_name_0="VDD_IN",
        in_power0_input=4_321,
        rail_name_1="VDD_SYS_CPU",
        in_power1_input=600,
        rail_name_2="VDD_SYS_DDR",
        in_power2_input=700,
    )
    carrier = tmp_path / "sys/bus/i2c/drivers/ina3221x/0-0042/iio:device2"
    write(
        carrier,
        rail_name_0="VDD_MUX",
        in_power0_input=9_500,
        rail_name_1="VDD_5V0_IO_SYS",
        in_power1_input=2_000,
        rail_name_2="NC",
        in_power2_input=0,
    )
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_bytes(b"nvidia,quill\0nvidia,tegra186\0")
    source = Rails()
    found = channels_of(source, tmp_path)
    assert {
        name.partition(":")[2]: (channel.scope, channel.within) for name, channel in found.items()
    } == {
        "VDD_IN": ("module", ("rail:VDD_MUX",)),
        "VDD_SYS_CPU": ("rail:VDD_SYS_CPU", ("module", "rail:VDD_MUX")),
        "VDD_SYS_DDR": ("rail:VDD_SYS_DDR", ("module", "rail:VDD_MUX")),
        "VDD_MUX": ("rail:VDD_MUX", ()),
        "VDD_5V0_IO_SYS": ("rail:VDD_5V0_IO_SYS", ("rail:VDD_MUX",)),
    }
    assert source.read(found["ina3221:VDD_IN"]).value == 4_321_000


def test_a_board_that_is_not_known_gets_its_rails_and_no_total(tmp_path: Path) -> None:
    """Never by a part of a name: VDD_INNER is no VDD_IN."""
    root = hwmon_rails(
        tmp_path,
        "ina3221",
        {"VDD_IN": (5_000, 1_000), "VDD_INNER": (5_000, 100)},
        board="nvidia,p9999",
    )
    assert {(channel.scope, channel.within) for channel in channels_of(Rails(), root).values()} == {
        ("rail:VDD_IN", ("rail:VDD_INNER",)),
        ("rail:VDD_INNER", ("rail:VDD_IN",)),
    }


def test_every_board_says_where_its_rails_are_from() -> None:
    assert len({board.name for board in read_boards().values()}) >= 8
    assert all(board.source and board.compatible for board in read_boards().values())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            (
                "RAM 2104/7620MB (lfb 3x4MB) CPU [1%@729,off] VDD_IN 4680/4700 VDD_CPU 600/610"
                " VDD_GPU 0/5"
            ),
            {"VDD_IN": 4680, "VDD_CPU": 600, "VDD_GPU": 0},
        ),
        (
            (
                "11-22-2026 RAM 1/2MB GR3D_FREQ 0% VDD_GPU_SOC 3173mW/3173mW VDD_CPU_CV 396mW/400mW"
                " VIN_SYS_5V0 2912mW/2912mW"
            ),
            {"VDD_GPU_SOC": 3173, "VDD_CPU_CV": 396, "VIN_SYS_5V0": 2912},
        ),
        ("RAM 1/2MB SWAP 0/3MB EMC_FREQ 0%", {}),
    ],
)
def test_tegrastats_prints_the_present_value_first(line: str, found: dict[str, int]) -> None:
    """The second number is the mean since the program began."""
    assert parse_rail_powers(line) == found


TEGRASTATS = """#!{python}
import time
for n in range(200):
    print(f"RAM 1/2MB VDD_IN {{5000 + n}}mW/5000mW VDD_SOC 600mW/600mW", flush=True)
    time.sleep(0.04)
"""


LINE_NS = 40_000_000
"""The least time between two of its lines."""


@pytest.mark.slow
def test_tegrastats_gives_energy(tmp_path: Path) -> None:
    """Lines that were read twice had the same time, and the energy was refused on every rail."""
    program = tmp_path / "root/usr/bin/tegrastats"
    program.parent.mkdir(parents=True)
    program.write_text(TEGRASTATS.format(python=sys.executable))
    program.chmod(0o755)
    options = {"name": "tegrastats", "root": str(tmp_path / "root"), "period_ms": 20, "asked": True}
    opening = SourceOpening(function="harness.machine.power.sampled:open_source", options=options)
    start = time.time_ns()
    with sample_during_block(tmp_path / "telemetry.jsonl", "cpu", (opening,)):
        time.sleep(0.3)
        begin = time.time_ns()
        time.sleep(1.5)
        end = time.time_ns()
        time.sleep(0.3)
    found = read_power_readings(tmp_path / "telemetry.jsonl")
    times = found.tracks["tegrastats:VDD_IN"].times_ns
    assert times == sorted(set(times)) and 20 < len(times) <= (time.time_ns() - start) / LINE_NS + 1
    measured, reasons = compute_channel_energies(found, begin, end)
    assert not reasons and 5.0 < measured["tegrastats:VDD_IN"].joules / (end - begin) * 1e9 < 5.1


def test_tegrastats_says_why_it_is_not_used(tmp_path: Path) -> None:
    assert Tegrastats().probe(tmp_path) == "the program tegrastats is not there: this is no Jetson"
    assert "not needed" in str(
        Tegrastats().probe(
            hwmon_rails(tmp_path, "ina3221", {"VDD_IN": (1, 1)}, board="nvidia,p3767-0000")
        )
    )
