"""`podium infer --device cuda:0-1` with real LoadGen and real processes; only the GPUs are missing,
which the fake network does not need.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import entry, options
from podium_fakes.kept import keep_ceiling, keep_checkpoint, run_folders, run_record
from podium_fakes.looks import look_briefly
from podium_fakes.served import Served, job

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.machine import device, placement, system_description
from harness.machine.gpus import Gpu
from harness.machine.placement import InstancePlacement
from harness.serving import infer, speed_probe
from harness.serving.loadgen.session import LoadGenJob, run_loadgen_in_child
from harness.serving.setup import ServingSetup, set_up_serving
from suite.errors import MissingError, RequestError
from suite.files.layout import RUN_RECORD
from suite.loadgen.scenario import Scenario
from suite.records import read_served_run

GPU = Gpu(name="NVIDIA H200", memory_bytes=141 * 2**30, driver="999.1", clock_mhz=None)
SHORT = ("loadgen.min_duration_ms=20", "server.qps_share=0.02")
CORES = {0, 1, 2, 3}
EXPECTED = {"loadgen.minimums", "loadgen.duration", "entry.checkpoint"}
"""Of runs as short as a test's, of weights that nobody trained."""


@pytest.fixture(autouse=True)
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs, of which nobody tells the cores; its processors are busy, so that no
    instance is pinned to cores that are not here.
    """
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(device, "count_usable_gpus", lambda: 2)
    monkeypatch.setattr(system_description, "list_gpus", lambda: (GPU, GPU))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: CORES)
    monkeypatch.setattr(placement, "measure_busy_share", lambda: 0.5)
    monkeypatch.setattr(speed_probe, "run_probe_job", look_briefly)


def serve(folder: Path, *assignments: str, scenario: Scenario, instances: int = 2) -> list[Path]:
    """Serve a checkpoint of the fake workload on both; return the runs' folders."""
    keep_ceiling(folder / "cache", instances=instances)
    keep_checkpoint(folder / "results")
    asked = options(folder / "results", *SHORT, *assignments, device="cuda:0-1")
    infer.serve_workload("fake", asked, scenarios=(scenario,), mode="all", checkpoint=None)
    return run_folders(entry(folder / "results"))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [Scenario.OFFLINE, Scenario.SERVER])
def test_each_device_answers_and_the_judge_agrees(tmp_path: Path, scenario: Scenario):
    """From the option to the verdict: one process for each device, records that name it, nothing
    that a rule objects to.
    """
    for folder in serve(tmp_path, scenario=scenario):
        record = run_record(folder)
        assert record.system.device == "cuda:0-1" and [
            each.device for each in record.instances
        ] == [
            "cuda:0",
            "cuda:1",
        ]
        assert sum(each.batches for each in record.instances) == record.batches["count"]
    (measurements,) = (tmp_path / "results").rglob("*_podium_*.json")
    assert json.loads(measurements.read_text())["device"] == "cuda:0-1"
    found = Judge().judge_path(str(tmp_path / "results")).findings
    assert [
        each
        for each in found
        if each.rule not in EXPECTED and each.severity is Severity.ERROR or "device" in each.found
    ] == []


@pytest.mark.slow
def test_the_setting_multiplies(tmp_path: Path):
    """Two processes on each of two GPUs."""
    _, performance = serve(tmp_path, "sut.instances=2", scenario=Scenario.OFFLINE, instances=4)
    assert [each.device for each in run_record(performance).instances] == [
        "cuda:0",
        "cuda:0",
        "cuda:1",
        "cuda:1",
    ]
    assert [
        f for f in Judge().judge_path(str(performance)).findings if f.rule == "loadgen.instances"
    ] == []


@pytest.mark.slow
def test_one_device_has_the_records_that_it_had(tmp_path: Path):
    """`device` beside each instance says something only where there are several."""
    keep_ceiling(tmp_path / "cache", instances=2)
    keep_checkpoint(tmp_path / "results")
    asked = options(tmp_path / "results", *SHORT, "sut.instances=2", device="cuda:1")
    infer.serve_workload(
        "fake", asked, scenarios=(Scenario.OFFLINE,), mode="performance", checkpoint=None
    )
    (folder,) = run_folders(entry(tmp_path / "results"))
    told = json.loads((folder / RUN_RECORD).read_text())
    assert read_served_run(folder).system.device == "cuda:1"
    assert [set(each) for each in told["instances"]] == [{"cores", "batches", "samples"}] * 2


def bench(folder: Path, *assignments: str, **changes: Any) -> ServingSetup:
    """Set up a request for both."""
    keep_checkpoint(folder)
    return set_up_serving("fake", options(folder, *assignments, device="cuda:0-1", **changes), None)


def run(one: LoadGenJob) -> None:
    """Run LoadGen and keep its files."""
    with run_loadgen_in_child(one):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "seen"), [(None, ("0", "6")), ("4,5,6,7,3,2,GPU-ab", ("4", "GPU-ab"))]
)
def test_each_process_sees_its_own_gpu_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, seen: tuple[str, str]
):
    """TensorFlow would take the memory of all that it sees, and what names no GPU would be on the
    first; numbers are those of this process.
    """
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    one = job(tmp_path, Scenario.OFFLINE)
    run(
        replace(
            one,
            system=replace(
                one.system,
                placement=(InstancePlacement(device="cuda:0"), InstancePlacement(device="cuda:6")),
            ),
        )
    )
    assert set((tmp_path / "sut" / "processes").read_text().splitlines()) == {
        f"cuda:0 of {word}" for word in seen
    }


def test_a_process_that_fails_is_told_with_its_gpu(tmp_path: Path):
    """One GPU of eight may be out of memory."""
    one = job(tmp_path, Scenario.OFFLINE, facts=Served(fault="open"))
    with pytest.raises(
        MissingError, match=r"instance 0 \(cuda:6, cores not pinned\): .*full on purpose"
    ):
        run(
            replace(
                one, system=replace(one.system, placement=(InstancePlacement(device="cuda:6"),))
            )
        )
    assert not list(tmp_path.glob("run*"))


def test_a_server_has_one_device(tmp_path: Path):
    """Behind a network, several are several servers."""
    pytest.importorskip("tritonclient.grpc", reason="the extra remote is not installed")
    from extras.kserve.command import serve_over_network as serve_others

    keep_checkpoint(tmp_path)
    with pytest.raises(
        RequestError, match="podium serve answers in one process: start one for each device"
    ):
        serve_others(
            "fake",
            options(tmp_path, device="cuda:0-1"),
            checkpoint=None,
            listen="127.0.0.1:0",
            server="builtin",
            files=(None, None, None),
        )


def test_the_system_is_named_after_its_devices(tmp_path: Path):
    """Two GPUs are another system than one; threads are shared."""
    ready = bench(tmp_path, system=None, threads=4)
    assert ready.device == "cuda:0-1" and ready.entry.system == "2x-nvidia-h200-fake-fp32"
    assert ready.system.workers == 2 and ready.system.run.threads == 2


def test_threads_within_a_process_do_not_go_with_several_devices(tmp_path: Path):
    """As with instances; the sentence names the option that was given."""
    with pytest.raises(
        RequestError,
        match=r"setting batching.workers and --device cuda:0-1: an instance has one worker",
    ):
        bench(tmp_path, "batching.workers=2")
