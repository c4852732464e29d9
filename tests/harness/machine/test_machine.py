"""What doctor and the system description see of machines that are not this one: fakes for GPUs,
processors, disks, packages.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from podium_fakes.drive import entry, options

from harness.commands.doctor import doctor as command
from harness.doctor import report
from harness.doctor.report import (
    ReadinessState,
    examine_engine,
    examine_workload,
    inspect_machine,
    list_missing_packages,
)
from harness.machine import gpus as gpu_module
from harness.machine import system_description
from harness.machine.gpus import Gpu, list_gpus
from harness.request import resolve_request
from suite.console.screen import OutputLevel
from suite.errors import MissingError
from suite.process.installation import format_install_command
from suite.rounds import Profile
from suite.terms import QUANTISED, Division, Precision

GPU = Gpu(name="NVIDIA B300", memory_bytes=288 * 2**30, driver="999.1", clock_mhz=None)


@pytest.fixture
def no_gpus() -> Iterator[None]:
    """Forget what was read, before and after."""
    list_gpus.cache_clear()
    yield
    list_gpus.cache_clear()


class Library:
    """NVIDIA's management library over machines of our own; counts how it is opened and closed."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        """What the real one raises."""

    def __init__(self, names: list[str | bytes], broken: str = "") -> None:
        self.names, self.broken, self.open = names, broken, 0

    def __getattr__(self, name: str) -> Any:
        if name == self.broken:
            raise self.NVMLError(name)
        if name.startswith("__"):  # asked by the import of newer Pythons
            raise AttributeError(name)
        answers: dict[str, Any] = {
            "nvmlSystemGetDriverVersion": lambda: b"999.1",
            "nvmlDeviceGetCount": lambda: len(self.names),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetName": lambda index: self.names[index],
            "nvmlDeviceGetMemoryInfo": lambda index: SimpleNamespace(total=(index + 1) * 2**30),
            "nvmlDeviceGetClockInfo": lambda index, kind: 1000 + index,
            "nvmlDeviceGetCudaComputeCapability": lambda index: [9, index],
        }
        return answers[name]

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1


@pytest.mark.usefixtures("no_gpus")
def test_every_gpu_of_a_machine_is_read(monkeypatch: pytest.MonkeyPatch):
    """In the driver's order, each with its own memory and clock."""
    library = Library(["NVIDIA H200", b"NVIDIA H100"])
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert [(gpu.name, gpu.memory_bytes, gpu.clock_mhz) for gpu in list_gpus()] == [
        ("NVIDIA H200", 2**30, 1000),
        ("NVIDIA H100", 2**31, 1001),
    ]
    assert {gpu.driver for gpu in list_gpus()} == {"999.1"} and library.open == 0


@pytest.mark.usefixtures("no_gpus")
def test_gpus_are_read_once(monkeypatch: pytest.MonkeyPatch):
    """Opening the library takes a tenth of a second, and the description asks several times."""
    library = Library(["x"])
    monkeypatch.setitem(sys.modules, "pynvml", library)
    first = list_gpus()
    library.names.append("y")
    assert list_gpus() is first


@pytest.mark.usefixtures("no_gpus")
def test_a_driver_without_gpus_is_no_gpu(monkeypatch: pytest.MonkeyPatch):
    """A container may have the one and not the other."""
    monkeypatch.setitem(sys.modules, "pynvml", Library([]))
    assert (
        list_gpus() == ()
        and system_description.describe_accelerators()["accelerator_model_name"] == "N/A"
    )


@pytest.mark.usefixtures("no_gpus")
def test_a_gpu_that_breaks_while_it_is_read_gives_the_library_back(monkeypatch: pytest.MonkeyPatch):
    """A card that fell off the bus is an error of the machine: nobody may take it for a machine
    without GPUs.
    """
    library = Library(["x"], broken="nvmlDeviceGetMemoryInfo")
    monkeypatch.setitem(sys.modules, "pynvml", library)
    with pytest.raises(Library.NVMLError):
        list_gpus()
    assert library.open == 0


@pytest.mark.parametrize(("value", "found"), [("plain", "plain"), (b"bytes", "bytes"), ("", "")])
def test_names_are_text(value: str | bytes, found: str):
    """The library's older versions give bytes."""
    assert gpu_module.decode_nvml_text(value) == found


# ---- the description ----


def describe(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> dict[str, Any]:
    """Describe a machine with two large GPUs."""
    monkeypatch.setattr(system_description, "list_gpus", lambda: (GPU, GPU))
    return system_description.describe_system(
        entry(folder), resolve_request(options(folder, **changes), "fake").described
    )


def test_a_machine_with_gpus_is_described_by_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A clock that the card hides is null, like everything that cannot be read."""
    found = describe(tmp_path, monkeypatch)
    assert (found["accelerators_per_node"], found["accelerator_memory_capacity"]) == (2, "288 GiB")
    assert (
        found["podium"]["gpu_clock_mhz"] == [None, None]
        and found["other_software_stack"].count("driver") == 1
    )


@pytest.mark.parametrize(
    ("world", "local", "nodes"), [("1", "1", 1), ("16", "8", 2), ("4", "4", 1)]
)
def test_nodes_are_counted_by_torchruns_variables(
    monkeypatch: pytest.MonkeyPatch, world: str, local: str, nodes: int
):
    """Ranks in all, ranks on a machine."""
    monkeypatch.setenv("WORLD_SIZE", world)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
    assert system_description.count_run_nodes() == nodes


@pytest.mark.parametrize(
    ("profile", "status"),
    [(Profile.SMOKE, "research"), (Profile.QUICK, "research"), (Profile.FULL, "onprem")],
)
def test_only_a_full_run_is_called_on_premises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: Profile, status: str
):
    """A demonstration must not read like a product that can be bought."""
    found = describe(tmp_path, monkeypatch, profile=profile)
    assert found["status"] == status and found["podium"]["profile"] == profile.value


def test_the_description_has_the_published_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ours, and the user's corrections of it."""
    import jsonschema

    schema = json.loads(
        (
            Path(__file__).parents[3] / "compliance" / "schemas" / "system-description.json"
        ).read_text()
    )
    jsonschema.validate(describe(tmp_path, monkeypatch), schema)
    own = tmp_path / "own.toml"
    own.write_text('host_storage_type = "tape"\nnumber_of_nodes = 4\n')
    found = describe(tmp_path, monkeypatch, system_file=own)
    jsonschema.validate(found, schema)
    assert (found["host_storage_type"], found["number_of_nodes"], found["division"]) == (
        "tape",
        4,
        Division.OPEN.value,
    )


@pytest.mark.parametrize(
    "content", ["", "\n\n", "processor\t: 0\n\nprocessor\t: 1\n", "no colon here\n", ": empty\n"]
)
def test_a_processor_that_says_little_is_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
):
    """Arm and virtual machines leave out most of it."""
    (tmp_path / "cpuinfo").write_text(content)
    monkeypatch.setattr(system_description, "CPU_INFO_FILE", tmp_path / "cpuinfo")
    monkeypatch.setattr(system_description.platform, "processor", lambda: "")
    assert (
        system_description.read_cpu_model() is None
        and system_description.count_processors() is None
        and system_description.count_cores_per_processor() is None
    )


@pytest.mark.parametrize(
    ("device", "rotational", "kind"),
    [
        ("nvme0n1", "0", "NVMe SSD"),
        ("sda", "0", "SSD"),
        ("sda", "1", "HDD"),
        ("vda", "1", "virtual disk"),
        ("xvda", None, "virtual disk"),
        ("dm-0", None, None),
    ],
)
@pytest.mark.parametrize("partition", [False, True])
def test_storage_is_told_by_what_lies_below_a_partition(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    rotational: str | None,
    kind: str | None,
    partition: bool,
):
    """What the kernel says of a virtual disk's rotation says nothing of what is below it."""
    disk = tmp_path / "block" / device
    (disk / "queue").mkdir(parents=True)
    if rotational is not None:
        (disk / "queue" / "rotational").write_text(f"{rotational}\n")
    if partition:
        (disk / f"{device}p1").mkdir()
        (disk / f"{device}p1" / "partition").write_text("1\n")
    real = Path.resolve

    def resolve(path: Path, strict: bool = False) -> Path:
        return (
            (disk / f"{device}p1" if partition else disk)
            if str(path).startswith("/sys/dev/block")
            else real(path, strict)
        )

    monkeypatch.setattr(Path, "resolve", resolve)
    assert system_description.find_storage_type(tmp_path) == kind


def test_what_stands_in_sys_is_read_without_its_newline(tmp_path: Path):
    """And what does not is null."""
    (tmp_path / "governor").write_text("performance\n")
    assert (
        system_description.read_kernel_line(tmp_path / "governor") == "performance"
        and system_description.read_kernel_line(tmp_path / "nothing") is None
    )


# ---- doctor ----


def test_a_light_core_still_looks_at_the_machine(monkeypatch: pytest.MonkeyPatch):
    """Without psutil the memory is unknown, not a traceback; without torch the device is the
    processor.
    """
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setattr(
        report, "resolve_device", lambda device: (_ for _ in ()).throw(ImportError("torch"))
    )
    here = inspect_machine()
    assert here.memory_gib is None and here.memory_free_gib is None and here.device == "cpu"
    assert not any("memory" in shortage for shortage in here.short_of)


def test_the_cache_may_not_be_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The disk below the nearest folder that is."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "a" / "b" / "c"))
    here = inspect_machine()
    assert (
        here.cache == str(tmp_path / "a" / "b" / "c")
        and here.disk_free_gib > 0
        and not (tmp_path / "a").exists()
    )


def test_extras_are_named_with_what_they_lack(monkeypatch: pytest.MonkeyPatch):
    """Those for developers are nobody's business here."""
    wanted = [
        "click>=8",
        "torch>=2; extra == 'run'",
        'numpy; extra == "run"',
        "onnx>=1; extra == 'onnx'",
        "pytest; extra == 'test'",
    ]
    monkeypatch.setattr(report, "requires", lambda name: wanted)
    monkeypatch.setattr(
        report, "is_distribution_installed", lambda name: name in ("numpy", "click")
    )
    assert list_missing_packages() == {"run": ["torch"], "onnx": ["onnx"]}
    monkeypatch.setattr(report, "requires", lambda name: None)
    assert list_missing_packages() == {}


@pytest.mark.slow
def test_training_is_examined_in_every_number_format():
    """What `train --precision` takes is more than what the rows ask for; a trial then leaves out
    what there is no code for.
    """
    found = [finding for finding in examine_workload("fake", "cpu") if finding.half == "training"]
    assert [finding.precision for finding in found] == [*Precision] and all(
        finding.state is ReadinessState.READY for finding in found
    )


def test_what_an_engine_lacks_decides_the_state(monkeypatch: pytest.MonkeyPatch):
    """An extra that could be installed is missing; anything else cannot run here."""
    for why, state in (
        (format_install_command("tensorrt"), ReadinessState.MISSING),
        ("needs a GPU", ReadinessState.CANNOT),
        ("", ReadinessState.READY),
    ):
        monkeypatch.setattr(
            report, "describe_engine_problem", lambda name, device, precision, why=why: why
        )
        states = {
            finding.precision: finding.state
            for finding in examine_engine("fake", "torch", "cpu", "")
        }
        quantised = {states.pop(precision) for precision in QUANTISED}
        assert quantised == {
            state if why else ReadinessState.CANNOT
        }  # the row names no calibration list
        assert set(states.values()) == {state}
    assert {finding.why for finding in examine_engine("fake", "torch", "cpu", "no torch")} == {
        "no torch"
    }


def test_a_workload_that_can_do_nothing_here_is_exit_3(monkeypatch: pytest.MonkeyPatch):
    """With the first reason."""
    lame = report.ReadinessFinding(
        workload="fake",
        half="training",
        engine="torch",
        precision="fp32",
        state=ReadinessState.CANNOT,
        why="no memory at all",
    )
    monkeypatch.setattr(report, "examine_workload", lambda name, device: iter([lame]))
    outcome = CliRunner().invoke(command, ["fake"], standalone_mode=False)
    assert isinstance(
        outcome.exception, MissingError
    ) and "fake cannot run here: no memory at all" in str(outcome.exception)


@pytest.mark.slow
def test_the_table_names_a_reason_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Six formats that lack the same are one line."""
    monkeypatch.setattr(
        report,
        "describe_engine_problem",
        lambda name, device, precision: "needs a GPU" if precision != "fp32" else "",
    )
    with click.Context(command, obj=OutputLevel(verbose=True)):
        report.print_readiness_report("fake", None, "text")
    told = capsys.readouterr().out
    assert (
        all("tf32, fp16, bf16" in line for line in told.splitlines() if "needs a GPU" in line)
        and "needs a GPU" in told
    )
    assert f"{len(os.sched_getaffinity(0))} cores" in told
