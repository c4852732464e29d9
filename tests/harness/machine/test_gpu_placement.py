"""Instances on GPUs get cores near them, each core once, on machines that are not this one: NVML
and the cores are fakes.
"""

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.doctor import report, screen
from harness.machine import device, placement, system_description
from harness.machine.gpu_cores import find_cores_near_gpus
from harness.machine.gpus import Gpu
from harness.machine.placement import (
    InstancePlacement,
    pin_instances,
    place_instances,
    resolve_instance_count,
)
from harness.machine.telemetry.process import plan_sampling
from suite.errors import RequestError

NODE_0, NODE_1 = tuple(range(8)), tuple(range(64, 72))
FOUR = [f"cuda:{number}" for number in range(4)]
MASK_WORDS = 2


class Nvml:
    """NVIDIA's management library; each GPU's cores by its index, None where the driver does not
    tell.
    """

    class NVMLError(Exception):
        """What the real one raises."""

    def __init__(self, *near: tuple[int, ...] | None) -> None:
        self.near, self.open = near, 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.near)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetCpuAffinity(self, handle: int, words: int) -> Any:
        """An array of unsigned longs, as nvidia-ml-py returns it."""
        cores = self.near[handle]
        if cores is None:
            raise self.NVMLError("not supported")
        return (ctypes.c_ulonglong * words)(
            *(sum(1 << core % 64 for core in cores if core // 64 == word) for word in range(words))
        )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Two nodes of eight cores, all of them free."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(placement, "NUMA_FOLDER", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {*NODE_0, *NODE_1})
    monkeypatch.setattr("os.sysconf", lambda name: 64 * MASK_WORDS)
    monkeypatch.setattr(placement, "measure_busy_share", lambda: 0.0)

    def with_gpus(*near: tuple[int, ...] | None) -> Nvml:
        library = Nvml(*near)
        monkeypatch.setitem(sys.modules, "pynvml", library)
        return library

    return with_gpus


def cores(places: tuple[InstancePlacement, ...]) -> list[tuple[int, ...]]:
    """Leave the devices out."""
    return [each.cores for each in places]


def test_cores_near_a_gpu_are_read_from_the_mask(machine: Any, monkeypatch: pytest.MonkeyPatch):
    """The second word counts from core 64; the library is closed; GPUs are numbered as CUDA numbers
    them.
    """
    library = machine(NODE_0, NODE_1, None)
    assert (
        find_cores_near_gpus([0, 1, 2, 7]) == {0: frozenset(NODE_0), 1: frozenset(NODE_1)}
        and library.open == 0
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert find_cores_near_gpus([0]) == {0: frozenset(NODE_1)}


def test_without_a_driver_no_core_is_near(monkeypatch: pytest.MonkeyPatch):
    """nvidia-ml-py is an extra."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert find_cores_near_gpus([0]) == {}


def test_gpus_of_one_node_share_its_cores(machine: Any):
    """Four GPUs that name the same eight cores get two each, none of them twice."""
    machine(NODE_1, NODE_0, NODE_1, NODE_0)
    found = pin_instances(FOUR)
    assert [each.device for each in found] == FOUR
    assert cores(found) == [(64, 65, 66, 67), (0, 1, 2, 3), (68, 69, 70, 71), (4, 5, 6, 7)]


def test_several_instances_of_a_gpu_divide_its_part(machine: Any):
    """The setting counts for each device."""
    machine(NODE_0, NODE_1)
    found = place_instances(FOUR[:2], resolve_instance_count({"sut.instances": 2}, FOUR[:2]))
    assert found == tuple(
        InstancePlacement(device=name, cores=group)
        for name, group in [
            ("cuda:0", (0, 1, 2, 3)),
            ("cuda:0", (4, 5, 6, 7)),
            ("cuda:1", (64, 65, 66, 67)),
            ("cuda:1", (68, 69, 70, 71)),
        ]
    )


def test_groups_are_equal_where_nodes_are_not(machine: Any):
    """Three GPUs on one node and one on the other: instances have as many threads each."""
    machine(NODE_0, NODE_0, NODE_0, NODE_1)
    found = cores(pin_instances(FOUR))
    assert (
        list(map(len, found)) == [2, 2, 2, 2]
        and len({core for group in found for core in group}) == 8
    )


@pytest.mark.parametrize(
    "near",
    [
        (NODE_0, None),
        (NODE_0, ()),
        (NODE_0, (200,)),
        (NODE_0, (*NODE_0, *NODE_1)),
        ((0,), (0,)),
    ],
    ids=[
        "one untold",
        "none",
        "of cores that are not ours",
        "overlapping",
        "fewer cores than GPUs",
    ],
)
def test_where_nvml_does_not_help_nodes_decide(machine: Any, near: tuple[Any, ...]):
    """Never a core in two groups, nor an instance without cores."""
    machine(*near)
    assert cores(pin_instances(FOUR[:2])) == [NODE_0, NODE_1]


def test_processors_are_not_asked_of_nvml(machine: Any):
    """Their instances stay where they were."""
    machine(NODE_1, NODE_1)
    assert cores(pin_instances(["cpu", "cpu"])) == [NODE_0, NODE_1]


def test_several_devices_have_an_instance_each(machine: Any, monkeypatch: pytest.MonkeyPatch):
    """0, which means LoadGen's own process elsewhere, counts as 1; a busy machine pins none."""
    machine(NODE_0, NODE_1)
    assert (
        resolve_instance_count({}, FOUR)
        == resolve_instance_count({"sut.instances": 0}, FOUR)
        == resolve_instance_count({"sut.instances": 1}, FOUR)
        == 4
    )
    assert resolve_instance_count({}, FOUR[:1]) == 0 and place_instances(FOUR[:1], 0) == ()
    monkeypatch.setattr(placement, "measure_busy_share", lambda: 0.5)
    assert place_instances(FOUR, 4) == tuple(InstancePlacement(device=name) for name in FOUR)


def test_more_instances_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch):
    """With the devices' name, since nobody set a number."""
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
    with pytest.raises(
        RequestError, match=r"--device cuda:0-3: 4 instances are too many for 2 cores"
    ):
        resolve_instance_count({}, FOUR)
    with pytest.raises(
        RequestError, match=r"setting sut\.instances: 3 instances are too many for 2 cores"
    ):
        resolve_instance_count({"sut.instances": 3}, ["cuda:0"])


def test_all_devices_are_sampled_and_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Watts of one GPU of eight would make a system look frugal."""
    (opening,) = [
        each
        for each in plan_sampling(tmp_path / "t.jsonl", "cuda:0-1,6").sources
        if "gpus" in each.function
    ]
    assert opening.options == {"ordinals": [0, 1, 6]}
    monkeypatch.setattr(
        system_description,
        "list_gpus",
        lambda: (Gpu(name="NVIDIA H200", memory_bytes=1, driver="", clock_mhz=None),) * 8,
    )
    assert system_description.build_system_name("cuda:0-7") == "8x-nvidia-h200"
    assert system_description.build_system_name("cuda:3") == "1x-nvidia-h200"


def test_doctor_tells_which_cores_each_gpu_gets(
    machine: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Before anybody rents the machine."""
    machine(NODE_0, NODE_1)
    monkeypatch.setattr(device, "count_usable_gpus", lambda: 2)
    told = report.map_gpu_cores("cuda:0")
    assert told == {"cuda:0": "0-7", "cuda:1": "64-71"} and report.map_gpu_cores("cpu") == {}
    plain = {
        "processor": "x",
        "power": (),
        "cores": 16,
        "memory_gib": 1,
        "memory_free_gib": 1,
        "cache": "",
        "disk_free_gib": 1,
        "cache_problem": "",
        "short_of": (),
    }
    here = SimpleNamespace(
        **plain,
        instances=("0-7", "64-71"),
        loadgen_core=3,
        placement=told,
        gpus=("a", "b"),
        device="cuda:0",
    )
    monkeypatch.setattr(screen, "list_gpus", tuple)
    screen.print_readiness(here, [], [])  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert (
        "--device cuda:0-1: cuda:0 on cores 0-7 | cuda:1 on cores 64-71\n" in said
        and "sut.loadgen_cores=3 " in said
    )
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0})
    assert report.map_gpu_cores("cuda:0") == {}
