"""Power sources on made-up trees and doubles: this project's machines have no RAPL and no GPU to
read.
"""

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from power_trees import channels_of, write

from harness.machine.power import sysfs
from harness.machine.power.nvml import Nvml
from harness.machine.power.rapl import Rapl
from harness.machine.power.sampled import AbsentSource, SourceChannels, open_source
from suite.energy import ChannelReadings, compute_window_energy
from suite.power import Grade, Quantity


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
