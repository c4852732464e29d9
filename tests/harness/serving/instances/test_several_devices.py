"""`podium infer --device cuda:0-1` with real LoadGen and real processes; only the GPUs are missing, which the fake network does not need."""

import json
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import entry, options
from podium_fakes.fake import Fake, FakeInference
from podium_fakes.kept import keep_ceiling, keep_checkpoint, run_folders, run_record

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.machine import device, placement, system_description
from harness.machine.gpus import Gpu
from harness.serving import infer
from harness.serving.setup import Bench, set_up
from suite.errors import RequestError
from suite.files.layout import RUN_RECORD
from suite.loadgen.scenario import Scenario

GPU = Gpu(name="NVIDIA H200", memory_bytes=141 * 2**30, driver="999.1", clock_mhz=None)
SHORT = ("loadgen.min_duration_ms=20", "server.target_qps=500")
CORES = {0, 1, 2, 3}
EXPECTED = {"loadgen.minimums", "loadgen.duration", "entry.checkpoint"}
"""Of runs as short as a test's, of weights that nobody trained."""


@pytest.fixture(autouse=True)
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs, of which nobody tells the cores; its processors are busy, so that no instance is pinned to cores that are not here."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(device, "usable_gpus", lambda: 2)
    monkeypatch.setattr(system_description, "gpus", lambda: (GPU, GPU))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: CORES)
    monkeypatch.setattr(placement, "busy_share", lambda: 0.5)


def serve(folder: Path, *assignments: str, scenario: Scenario, instances: int = 2) -> list[Path]:
    """Serve a checkpoint of the fake workload on both; return the runs' folders."""
    keep_ceiling(folder / "cache", instances=instances)
    keep_checkpoint(folder / "results")
    asked = options(folder / "results", *SHORT, *assignments, device="cuda:0-1")
    infer.serve("fake", asked, scenarios=(scenario,), mode="all", checkpoint=None)
    return run_folders(entry(folder / "results"))


@pytest.mark.parametrize("scenario", [Scenario.OFFLINE, Scenario.SERVER])
def test_each_device_answers_and_the_judge_agrees(tmp_path: Path, scenario: Scenario):
    """From the option to the verdict: one process for each device, records that name it, nothing that a rule objects to."""
    for folder in serve(tmp_path, scenario=scenario):
        record = run_record(folder)
        assert record.device == "cuda:0-1" and [each.device for each in record.instances] == ["cuda:0", "cuda:1"]
        assert sum(each.batches for each in record.instances) == record.batches["count"]
    (measurements,) = (tmp_path / "results").rglob("*_podium_*.json")
    assert json.loads(measurements.read_text())["device"] == "cuda:0-1"
    found = Judge().result(str(tmp_path / "results")).findings
    assert [each for each in found if each.rule not in EXPECTED and each.severity is Severity.ERROR or "device" in each.found] == []


def test_the_setting_multiplies(tmp_path: Path):
    """Two processes on each of two GPUs."""
    _, performance = serve(tmp_path, "sut.instances=2", scenario=Scenario.OFFLINE, instances=4)
    assert [each.device for each in run_record(performance).instances] == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
    assert [f for f in Judge().result(str(performance)).findings if f.rule == "loadgen.instances"] == []


def test_one_device_has_the_records_that_it_had(tmp_path: Path):
    """`device` beside each instance says something only where there are several."""
    keep_ceiling(tmp_path / "cache", instances=2)
    keep_checkpoint(tmp_path / "results")
    asked = options(tmp_path / "results", *SHORT, "sut.instances=2", device="cuda:1")
    infer.serve("fake", asked, scenarios=(Scenario.OFFLINE,), mode="performance", checkpoint=None)
    (folder,) = run_folders(entry(tmp_path / "results"))
    told = json.loads((folder / RUN_RECORD).read_text())
    assert told["device"] == "cuda:1" and [set(each) for each in told["instances"]] == [{"cores", "batches", "samples"}] * 2


def bench(folder: Path, *assignments: str, **changes: Any) -> Bench:
    """Set up a request for both."""
    keep_checkpoint(folder)
    return set_up("fake", options(folder, *assignments, device="cuda:0-1", **changes), None)


def test_each_process_gets_its_own_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By the run that its workload receives: a child resolves nothing again."""
    seen = []
    monkeypatch.setattr(Fake, "inference", lambda self, run, checkpoint, engine: seen.append(run.device) or FakeInference(run, checkpoint, engine))
    system = bench(tmp_path).system
    for place in system.placement:
        system.on(place.device).build()
    assert seen == ["cuda:0", "cuda:1"]


def test_the_system_is_named_after_its_devices(tmp_path: Path):
    """Two GPUs are another system than one; threads are shared."""
    ready = bench(tmp_path, system=None, threads=4)
    assert ready.device == "cuda:0-1" and ready.entry.system == "2x-nvidia-h200-fake-fp32"
    assert ready.system.workers == 2 and ready.system.run.threads == 2


def test_threads_within_a_process_do_not_go_with_several_devices(tmp_path: Path):
    """As with instances; the sentence names the option that was given."""
    with pytest.raises(RequestError, match=r"setting batching.workers and --device cuda:0-1: an instance has one worker"):
        bench(tmp_path, "batching.workers=2")
