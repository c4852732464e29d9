"""Power sources on made-up trees and doubles: this project's machines have no RAPL, no ACPI meter,
no Jetson and no GPU to read.
"""

import os
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.machine.power import sysfs
from harness.machine.power.boards import read_boards
from harness.machine.power.hwmon import Hwmon
from harness.machine.power.nvml import Nvml
from harness.machine.power.rails import Rails
from harness.machine.power.rapl import Rapl
from harness.machine.power.sampled import AbsentSource, SourceChannels, open_source
from harness.machine.power.tegrastats import Tegrastats, parse_rail_powers
from harness.machine.telemetry.process import sample_during_block
from harness.machine.telemetry.sampled import SourceOpening
from suite.energy import ChannelReadings, compute_window_energy
from suite.measurement.power_readings import compute_channel_energies, read_power_readings
from suite.power import Channel, Grade, Quantity


def write(root: Path, **files: object) -> None:
    for name, value in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")


def zone(
    root: Path, name: str, label: str, *, energy_uj: object = 1000, range_uj: int = 262_143_328_850
) -> Path:
    folder = root / "sys" / "class" / "powercap" / name
    write(
        folder,
        name=label,
        energy_uj=energy_uj,
        max_energy_range_uj=range_uj,
        constraint_0_max_power_uw=165_000_000,
    )
    return folder


def channels_of(source: Any, root: Path) -> dict[str, Channel]:
    found = source.probe(root)
    assert not isinstance(found, str), found
    return {channel.name: channel for channel in found}


def test_rapl_names_what_contains_what(tmp_path: Path) -> None:
    """Adding a package to its cores, or psys to both, would count twice."""
    for name, label in {
        "intel-rapl:0": "package-0",
        "intel-rapl:0:0": "core",
        "intel-rapl:0:1": "dram",
        "intel-rapl:1": "psys",
    }.items():
        zone(tmp_path, name, label)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0")
    found = channels_of(Rapl(), tmp_path)
    places = {name: (channel.scope, channel.within) for name, channel in found.items()}
    assert places == {
        "rapl:package0": ("package0", ("psys",)),
        "rapl:core0": ("core0", ("package0", "psys")),
        "rapl:dram0": ("dram0", ("psys",)),
        "rapl:psys": ("psys", ()),
    }
    assert {channel.grade for channel in found.values()} == {Grade.COUNTER}
    assert found["rapl:package0"].facts == {
        "domain": "package-0",
        "range_uj": 262_143_328_850,
        "limit_w": 165.0,
    }


def test_rapl_follows_a_known_power_through_wraps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 W are integrated into a counter with a small range, as the kernel would; by a clock of the
    test's own, which no stall holds up.
    """
    folder, range_uj, now_ns = (
        zone(tmp_path, "intel-rapl:0", "package-0", energy_uj=0, range_uj=20_000_000),
        20_000_000,
        5_000_000_000,
    )
    monkeypatch.setattr(sysfs, "time", SimpleNamespace(monotonic_ns=lambda: now_ns))
    source = Rapl()
    (channel,) = channels_of(source, tmp_path).values()
    readings = []
    for _ in range(12):
        write(folder, energy_uj=now_ns * 80 // 1000 % range_uj)
        readings.append(source.read(channel))
        now_ns += 50_000_000
    series = ChannelReadings(
        times_ns=[each.t_ns for each in readings],
        values=[each.value for each in readings],
        quantity=Quantity.ENERGY,
        range_uj=range_uj,
        period_ms=100,
    )
    found = compute_window_energy(series, readings[0].t_ns, readings[-1].t_ns)
    assert found.joules == pytest.approx(80 * 11 * 0.05) and found.joules > 2 * range_uj / 1e6


def test_counters_that_only_root_may_read_say_how_to_open_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since PLATYPUS; other tools fall silent, or estimate."""
    folder = zone(tmp_path, "intel-rapl:0", "package-0")
    (folder / "energy_uj").chmod(0)
    if os.geteuid() == 0:
        real = Path.open
        refused = PermissionError(13, "Permission denied")

        def opening(self: Path, *args: Any, **kwargs: Any) -> Any:
            if not stat.S_IMODE(self.stat().st_mode) & stat.S_IRUSR:
                raise refused
            return real(self, *args, **kwargs)

        monkeypatch.setattr(Path, "open", opening)
    found = Rapl().probe(tmp_path)
    assert (
        found == "/sys/class/powercap/intel-rapl:0/energy_uj cannot be read; "
        "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj opens it until the next start"
    )


@pytest.mark.parametrize("content", ["", "garbage", "12 34", "0x10"])
def test_a_counter_with_garbage_is_none(tmp_path: Path, content: str) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", energy_uj=content)
    assert isinstance(Rapl().probe(tmp_path), str)


def test_a_file_that_vanishes_is_an_error_of_that_reading(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0")
    zone(tmp_path, "intel-rapl:1", "package-1")
    source = SourceChannels(Rapl(), (rapl := Rapl()).probe(tmp_path), str(tmp_path), 100)  # type: ignore[arg-type]
    source.source = rapl
    (folder / "energy_uj").unlink()
    assert [reading.channel for reading in source.read()] == [1]
    (tmp_path / "sys/class/powercap/intel-rapl:1/energy_uj").unlink()
    with pytest.raises(FileNotFoundError):
        list(source.read())


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


def test_rapl_may_draw_its_short_term_limit(tmp_path: Path) -> None:
    """A package of 65 W long-term that ran at 150 W in turbo was told to have jumped."""
    folder = zone(tmp_path, "intel-rapl:0", "package-0")
    write(
        folder,
        constraint_0_max_power_uw=65_000_000,
        constraint_0_power_limit_uw=65_000_000,
        constraint_1_power_limit_uw=180_000_000,
    )
    write(folder, constraint_1_time_window_us=999_000_000)
    assert channels_of(Rapl(), tmp_path)["rapl:package0"].facts["limit_w"] == 180.0


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


class NvmlError(Exception):
    """What the library raises."""


class Library:
    """A double of pynvml with one GPU that knows some calls."""

    NVMLError = NvmlError
    NVML_FI_DEV_POWER_INSTANT, NVML_POWER_SCOPE_MODULE = 186, 1

    def __init__(self, **values: int) -> None:
        self.values, self.closed = values, False

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None:
        self.closed = True

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return "handle"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"Tesla T4"

    def tell(self, name: str) -> int:
        if name not in self.values:
            raise NvmlError("Not Supported")
        return self.values[name]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return self.tell("energy_mj")

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return self.tell("average_mw")

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return self.tell("limit_mw")

    def nvmlDeviceGetFieldValues(self, handle: str, fields: list[Any]) -> list[Any]:
        found = self.values.get("instant_mw" if fields == [186] else "module_mw")
        return [SimpleNamespace(nvmlReturn=0 if found else 3, value=SimpleNamespace(uiVal=found))]


@pytest.mark.parametrize(
    ("values", "call", "grade", "value"),
    [
        (
            {"energy_mj": 5, "instant_mw": 6, "average_mw": 7, "limit_mw": 70_000},
            "nvmlDeviceGetTotalEnergyConsumption",
            Grade.COUNTER,
            5_000,
        ),
        ({"instant_mw": 6, "average_mw": 7}, "NVML_FI_DEV_POWER_INSTANT", Grade.SENSOR, 6_000),
        ({"average_mw": 7}, "nvmlDeviceGetPowerUsage", Grade.SENSOR, 7_000),
        ({"energy_mj": 0, "average_mw": 7}, "nvmlDeviceGetPowerUsage", Grade.SENSOR, 7_000),
    ],
    ids=["counter", "instant", "average", "counter that stands at 0"],
)
def test_a_gpu_is_read_by_the_best_call_that_answers_and_says_which(
    values: dict[str, int], call: str, grade: Grade, value: int
) -> None:
    source = Nvml(library := Library(**values))
    (channel,) = channels_of(source, Path("/")).values()
    assert (channel.facts["call"], channel.grade, channel.scope, channel.facts["model"]) == (
        call,
        grade,
        "gpu0",
        "Tesla T4",
    )
    assert source.read(channel).value == value
    library.values = {}
    with pytest.raises(OSError, match="nvml:gpu0: "):
        source.read(channel)
    source.close()
    assert library.closed


def test_a_superchip_has_its_modules_power_beside_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module contains the GPU, so the two are never added; other GPUs have no module, whatever
    their driver answers.
    """
    values = {"instant_mw": 400_000, "module_mw": 610_000}
    assert list(channels_of(Nvml(Library(**values)), Path("/"))) == ["nvml:gpu0"]
    monkeypatch.setattr(Library, "nvmlDeviceGetName", lambda *_: b"NVIDIA GH200 480GB")
    found = channels_of(source := Nvml(Library(**values)), Path("/"))
    assert {name: (each.scope, each.within) for name, each in found.items()} == {
        "nvml:gpu0": ("gpu0", ("psys", "module0")),
        "nvml:module0": ("module0", ("psys",)),
    }
    assert source.read(found["nvml:module0"]).value == 610_000_000
    assert (
        found["nvml:module0"].facts["call"] == "NVML_FI_DEV_POWER_INSTANT, NVML_POWER_SCOPE_MODULE"
    )


def test_a_gpu_that_supports_nothing_is_absent_and_not_zero() -> None:
    """Tegra's NVML comes up and answers NotSupported to everything, as a MIG slice does."""
    assert "NotSupported for each of 1 GPUs" in str(Nvml(Library()).probe(Path("/")))


def test_a_source_that_was_asked_for_and_has_nothing_says_why(tmp_path: Path) -> None:
    assert open_source("rapl", str(tmp_path), 100, False) is None
    absent = open_source("rapl", str(tmp_path), 100, True)
    assert (
        isinstance(absent, AbsentSource)
        and "no counters below /sys/class/powercap" in absent.channels[0].facts["absent"]
    )
