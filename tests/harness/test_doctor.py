"""`podium doctor`: what this machine can run, and what is missing."""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from platform import machine as platform_machine
from platform import python_version
from typing import Any

import pytest
from click.testing import CliRunner
from namespaces import require_namespaces
from podium_fakes import records
from podium_fakes.engine import FakeEngine

from harness.commands.doctor import doctor as command
from harness.data_workers import WorkerLimits
from harness.doctor import dtype_trials, findings, report, screen
from harness.machine import system_description
from suite import registry
from suite.console.screen import OutputLevel
from suite.errors import MissingError, RequestError
from suite.input import Place
from suite.process.installation import RUN_EXTRA, format_install_command
from suite.terms import Precision


def looked(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(command, [*words, "--format", "json"])
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def fake() -> dict[str, Any]:
    """What is said of the fake workload."""
    return looked("fake")


@pytest.mark.slow
def test_every_combination_has_a_state_and_a_reason(fake: dict[str, Any]):
    """A format that an engine cannot do is named with why; the others are ready."""
    found = {(f["half"], f["engine"], f["precision"]): f for f in fake["workloads"]}
    assert (
        found["training", "torch", "fp32"]["state"] == "ready"
        and found["inference", "fake", "bf16"]["state"] == "ready"
    )
    assert (
        found["inference", "fake", "int4"]["state"],
        found["inference", "fake", "int4"]["why"],
    ) == ("cannot run here", "has no int4")


@pytest.mark.parametrize(
    ("flags", "listed"), [("avx2", "fp32, bf16 (emulated)"), ("avx512_bf16", "fp32, bf16")]
)
def test_bf16_without_instructions_is_called_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, listed: str
):
    """It runs, and slower than fp32: who reads the list would choose it for its speed."""
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : fpu {flags}\n")
    monkeypatch.setattr(system_description, "CPU_INFO_FILE", tmp_path / "cpuinfo")
    found = [
        finding
        for examine in (report.examine_training, report.examine_engine)
        for finding in examine("resnet50", "torch", "cpu", "")
        if finding.precision in (Precision.FP32, Precision.BF16)
    ]
    assert len(found) == 4
    assert screen.format_runnable_precisions(found[:2]) == listed
    assert screen.format_runnable_precisions(found[2:]) == listed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            "bf16 raise",
            (
                "tried, and failed: RuntimeError: could not create a primitive descriptor for the"
                " LSTM forward propagation primitive"
            ),
        ),
        ("bf16 SIGILL", "the process that tried it was ended by SIGILL"),
        ("bf16 SIGKILL", "the process that tried it was ended by SIGKILL"),
        ("bf16 hang", "took longer than 3 s"),
    ],
)
def test_a_format_that_crashes_is_not_ready_and_those_behind_it_are_tried(
    fault: str, why: str, monkeypatch: pytest.MonkeyPatch
):
    """`podium doctor gnmt` said that bf16 is ready, and training crashed; a crash ends neither
    doctor nor the other trials.
    """
    monkeypatch.setenv("PODIUM_FAKE_TRIAL", fault)
    monkeypatch.setattr(dtype_trials, "MAX_TRIAL_S", 3.0)
    found = {f["precision"]: f for f in looked("fake")["workloads"] if f["half"] == "training"}
    assert {name: f["state"] for name, f in found.items()} == {
        "fp32": "ready",
        "fp16": "ready",
        "bf16": "cannot run here",
    }
    assert found["bf16"]["why"] == why


@pytest.mark.slow
def test_a_framework_that_loads_for_long_refuses_nothing(monkeypatch: pytest.MonkeyPatch):
    """From a busy network file system that took more than a trial may: training in bf16 was
    refused, and the machine said to lack it.
    """
    monkeypatch.setattr(dtype_trials, "MAX_TRIAL_S", 0.1)
    attempt = dtype_trials.PrecisionTrial(
        workload="fake", half=report.WorkloadHalf.TRAINING, engine="torch", precision=Precision.BF16
    )
    receiver, sender = multiprocessing.Pipe(duplex=False)
    ran = dtype_trials.TrialResult(ending=dtype_trials.TrialEnding.RAN)
    loading = threading.Timer(0.5, lambda: [sender.send(each) for each in (None, ran)])
    loading.start()
    assert dtype_trials.collect_trial_results(
        [attempt], multiprocessing.get_context("spawn").Process(), receiver
    ) == {attempt: ran}
    loading.join()


@pytest.mark.slow
def test_without_a_network_to_try_nothing_is_called_ready(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A third party's workload is said to be untried, and that is no reason for exit 3."""
    found = [
        report.ReadinessFinding(
            workload="w",
            half=report.WorkloadHalf.TRAINING,
            engine="torch",
            precision=Precision.FP32,
            state=report.ReadinessState.READY,
        )
    ]
    untried = dtype_trials.TrialResult(
        ending=dtype_trials.TrialEnding.UNTRIED, why="there is no trial network for it"
    )
    monkeypatch.setattr(
        findings, "run_precision_trials", lambda attempts, device: dict.fromkeys(attempts, untried)
    )
    (told,) = report.confirm_findings(found, "cpu")
    assert told.state is report.ReadinessState.UNTRIED
    monkeypatch.setattr(report, "confirm_findings", lambda findings, device: [told])
    report.print_readiness_report("fake", None, "text")
    assert "fp32 (not tried)" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "workload", ["gnmt", "llama", "maskrcnn", "minigo", "resnet50", "ssd", "transformer"]
)
def test_each_workload_has_something_to_try_in_every_framework(workload: str):
    """In fp32, which every machine computes in: a training step, and what the framework's own
    engine serves.
    """
    for framework in sorted(registry.load_workload(workload).frameworks or ()):
        if find_spec(framework) is None:
            continue
        for half in report.WorkloadHalf:
            result = dtype_trials.run_single_trial(
                dtype_trials.PrecisionTrial(
                    workload=workload, half=half, engine=framework, precision=Precision.FP32
                ),
                "cpu",
            )
            expected = (
                dtype_trials.TrialEnding.REFUSED
                if (workload, half, framework) == ("resnet50", "training", "tensorflow")
                else dtype_trials.TrialEnding.RAN
            )
            assert result.ending is expected, result


@pytest.mark.slow
@pytest.mark.skipif(
    platform_machine() not in ("x86_64", "AMD64"),
    reason="oneDNN's choice of instructions is a switch on x86 alone",
)
def test_lstms_in_lower_formats_are_ready_without_their_instructions(
    monkeypatch: pytest.MonkeyPatch,
):
    """oneDNN has no LSTM in bf16 and fp16 for AVX2: GNMT computes its LSTMs in fp32 there. oneDNN
    reads the switch in the processes that try.
    """
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    for workload in ("gnmt", "ssd"):
        told = looked(workload)
        if "cuda" in told["machine"]["device"]:
            continue
        ready = {half.value: set[str]() for half in report.WorkloadHalf}
        for found in told["workloads"]:
            if found["engine"] == "torch" and found["state"] == "ready":
                ready[found["half"]].add(found["precision"])
        assert all(formats == {"fp32", "fp16", "bf16"} for formats in ready.values()), ready


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_onnx_runtime_is_tried_in_each_format_of_the_processor(precision: Precision):
    """An export takes seconds; a product of two matrices shows that the package and its kernels are
    there.
    """
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    attempt = dtype_trials.PrecisionTrial(
        workload="gnmt",
        half=report.WorkloadHalf.INFERENCE,
        engine="onnxruntime",
        precision=precision,
    )
    assert dtype_trials.run_single_trial(attempt, "cpu").ending is dtype_trials.TrialEnding.RAN


def test_what_a_generator_lacks_is_told_before_anything_is_tried(
    monkeypatch: pytest.MonkeyPatch,
):
    """`podium infer` refuses these, and doctor said that they were ready."""
    monkeypatch.setattr(report, "describe_engine_problem", lambda *_: "")
    found = {
        (engine, finding.precision): finding
        for engine in ("torch", "onnxruntime")
        for finding in report.examine_engine("llama", engine, "cpu", "")
    }
    ready = {each for each, one in found.items() if one.state is report.ReadinessState.READY}
    assert ready == {("torch", "fp32"), ("torch", "tf32"), ("torch", "bf16")}
    assert found["torch", "fp16"].why == "its generator has no fp16; it has fp32, tf32, bf16"
    assert "does not generate token by token" in found["onnxruntime", "fp32"].why


def test_a_format_that_a_workload_is_not_served_in_is_told_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
):
    """Nobody should find out after training that there is nothing to calibrate with."""
    monkeypatch.setattr(FakeEngine, "missing", lambda *_: None)
    states = {
        finding.precision: finding for finding in report.examine_engine("fake", "fake", "cpu", "")
    }
    assert (
        states["bf16"].state is report.ReadinessState.READY
        and states["int8"].state is report.ReadinessState.CANNOT
    )
    assert states["int8"].why.endswith(
        "the round has no list of this workload: it answers by arithmetic"
    )


@pytest.mark.slow
def test_the_machine_is_described(fake: dict[str, Any]):
    """Cores, memory, disk and the device that auto takes."""
    here = fake["machine"]
    assert (
        here["cores"] >= 1
        and here["memory_gib"] > 0
        and here["disk_free_gib"] > 0
        and here["device"].partition(":")[0] in ("cpu", "cuda")
    )


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    """Whoever installed the light core learns what to type, and the exit code is 3."""
    monkeypatch.setattr(report, "is_distribution_installed", lambda name: name != "torch")
    assert report.list_missing_packages()["run"] == ["torch"]
    with pytest.raises(MissingError, match=r"torch not installed: pip install .*\[run\]'"):
        report.print_readiness_report("fake", None, "text")


def test_a_package_is_there_by_whichever_of_its_distributions(monkeypatch: pytest.MonkeyPatch):
    """TensorFlow for CPUs is TensorFlow: an extra that is ready must not be called missing."""

    def version(name: str) -> str:
        if name != "tensorflow-cpu":
            raise report.PackageNotFoundError(name)
        return "2.21.0"

    monkeypatch.setattr(report, "version", version)
    assert [
        report.is_distribution_installed(name)
        for name in ("tensorflow", "tensorflow-cpu", "tensorrt-cu12", "torch")
    ] == [True, True, False, False]


def test_an_engine_that_is_not_installed_is_missing_not_broken(monkeypatch: pytest.MonkeyPatch):
    """One extra that is absent must not hide the rest."""

    def absent(name: str) -> None:
        raise MissingError(f"engine '{name}' needs onnxruntime: {format_install_command('onnx')}")

    monkeypatch.setattr(report.registry, "load_engine", absent)
    states = {finding.state for finding in report.examine_engine("fake", "onnx", "cpu", "")}
    assert states == {report.ReadinessState.MISSING}


@pytest.mark.slow
def test_little_memory_and_disk_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Better before than in the middle of a run."""
    monkeypatch.setattr(report, "MEMORY_NEEDED_GIB", 1e6)
    monkeypatch.setattr(report, "DISK_NEEDED_GIB", 1e9)
    report.print_readiness_report("fake", None, "text")
    told = capsys.readouterr().out
    assert told.count("short of") == 2 and "memory:" in told and "disk at" in told
    assert "has no int4" not in told and "podium doctor -v says why" in told


def test_little_shared_memory_is_told_where_data_workers_need_it(monkeypatch: pytest.MonkeyPatch):
    """A container has 64 MiB of /dev/shm unless it is given more."""
    for sizes, told in (
        ((64.0, 63.0), "/dev/shm: 63 MiB free, data workers need 64 MiB; --set"),
        (
            None,
            "/dev/shm: does not exist, data workers need 64 MiB; --set data.workers=0, or give",
        ),
    ):
        monkeypatch.setattr(report, "read_shared_memory_mib", lambda sizes=sizes: sizes)
        assert report.find_shared_memory_problem(["resnet50"]).startswith(told)
    assert not report.find_shared_memory_problem([])
    monkeypatch.setattr(report, "read_shared_memory_mib", lambda: (64.0, 64.0))
    for cores, told in ((3, ""), (4, "/dev/shm: 64 MiB free, so that data.workers=auto is 1")):
        limits = WorkerLimits(cores=cores, memory_mib=1e6, shared_memory_mib=64.0)
        monkeypatch.setattr(report, "measure_worker_limits", lambda limits=limits: limits)
        problem = report.find_shared_memory_problem(["resnet50"])
        assert problem.startswith(told) and bool(problem) is bool(told)


def test_the_answer_is_one_row_per_workload_and_engine_and_each_fix_is_told_once(
    capsys: pytest.CaptureFixture[str],
):
    """A hundred lines of reasons drowned what runs, and named one missing package twenty-eight
    times; no version stood in them.
    """
    why = f"engine 'onnxruntime' needs onnx: {format_install_command('onnx')}"
    found = [
        findings.ReadinessFinding(
            workload=name,
            half=report.WorkloadHalf.INFERENCE,
            engine="onnxruntime",
            precision=precision,
            state=report.ReadinessState.MISSING,
            why=why,
        )
        for name in ("gnmt", "ssd")
        for precision in Precision
    ]
    ready = [
        findings.ReadinessFinding(
            workload="gnmt",
            half=half,
            engine="torch",
            precision=Precision.FP32,
            state=report.ReadinessState.READY,
        )
        for half in report.WorkloadHalf
    ]
    screen.print_readiness(report.inspect_machine(), [*ready, *found], [])
    told = capsys.readouterr().out
    assert (
        told.count(format_install_command("onnx")) == 1
        and f"to add onnxruntime: {format_install_command('onnx')}" in told
    )
    rows = [line.split() for line in told.splitlines() if line.startswith(("gnmt", "ssd"))]
    assert rows == [
        ["gnmt", "torch", "fp32", "fp32"],
        ["gnmt", "onnxruntime", "-", "not", "installed"],
        ["ssd", "onnxruntime", "-", "not", "installed"],
    ]
    assert (
        told.startswith("versions   podium ")
        and f"Python {python_version()}" in told
        and "LoadGen " in told
    )


@pytest.mark.slow
def test_verbose_gives_every_reason():
    done = CliRunner().invoke(command, ["fake"], obj=OutputLevel(verbose=True))
    assert (
        "fake inference fake: cannot run here: int4: has no int4" in done.output
        and "says why" not in done.output
    )


@pytest.mark.slow
def test_data_that_a_workload_can_read_is_said_to_be_usable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The folder is opened the way a training run opens it."""
    report.print_readiness_report("fake", tmp_path, "text")
    assert "can be used by fake" in capsys.readouterr().out
    monkeypatch.setattr(
        report, "resolve_request", lambda *_: (_ for _ in ()).throw(RequestError("no train folder"))
    )
    with pytest.raises(RequestError, match="--data .*: no train folder"):
        report.print_readiness_report("fake", tmp_path, "text")
    assert (
        json.loads(
            CliRunner()
            .invoke(command, ["fake", "--data", str(tmp_path), "--format", "json"])
            .stdout
        )["data"]["usable"]
        is False
    )


def test_wrong_requests_are_told():
    """An unknown workload gets the nearest name; data without a workload says what to type."""
    with pytest.raises(RequestError, match="did you mean 'fake'"):
        report.print_readiness_report("fak", None, "text")
    with pytest.raises(RequestError, match="podium doctor WORKLOAD"):
        report.print_readiness_report(None, Path("/tmp"), "text")


def test_engines_of_other_frameworks_are_passed_over(monkeypatch: pytest.MonkeyPatch):
    """A workload in PyTorch alone cannot be served by TensorFlow, however well that is
    installed.
    """

    class Engine:
        accepts = frozenset({"tensorflow"})

        def missing(self, device: str, precision: Precision) -> None:
            return None

    monkeypatch.setattr(report.registry, "load_engine", lambda name: Engine())
    assert not report.can_accept_networks("tensorflow", frozenset({"torch"}))
    assert report.can_accept_networks("tensorflow", frozenset({"torch", "tensorflow"}))
    monkeypatch.setattr(records, "FAKE", replace(records.FAKE, frameworks=frozenset({"torch"})))
    assert {finding.half for finding in report.examine_workload("fake", "cpu")} == {"training"}


def test_an_engine_that_ran_on_no_hardware_yet_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Ready is not the same as seen to work; in both forms."""
    from extras.tensorrt.engine import TensorRTEngine

    told = "it has not run on a GPU yet"
    monkeypatch.setattr(report.registry, "load_engine", lambda name: TensorRTEngine())
    findings = list(report.examine_engine("fake", "tensorrt", "cpu", ""))
    assert all(
        told in finding.caution and finding.why == "runs on NVIDIA GPUs only"
        for finding in findings
        if finding.precision == "fp32"
    )
    screen.print_readiness(report.inspect_machine(), findings, [])
    assert capsys.readouterr().out.count(told) == 1


def test_input_pipelines_are_told_with_where_they_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Ready, missing with the extra, or why not here: of each pipeline and place."""

    class Input:
        places = tuple(Place)

        def missing(self, device: str, place: Place) -> str | None:
            return None if place is Place.CPU else f"needs a GPU, and the run's device is {device}"

    def asked(name: str) -> Input:
        if name == "absent":
            raise MissingError(
                f"input pipeline 'absent' needs torch: {format_install_command(RUN_EXTRA)}"
            )
        return Input()

    monkeypatch.setattr(
        report.registry, "map_entry_points", lambda group: {"absent": None, "here": None}
    )
    monkeypatch.setattr(report.registry, "load_input_pipeline", asked)
    found = list(report.examine_inputs("cpu"))
    assert [(f.name, f.place, f.state.name) for f in found] == [
        ("absent", "", "MISSING"),
        ("here", "cpu", "READY"),
        ("here", "mixed", "CANNOT"),
        ("here", "gpu", "CANNOT"),
    ]
    assert [line.split() for line in screen.format_input_rows(found)] == [
        ["input", "absent", "not", "installed"],
        ["input", "here", "cpu"],
    ]
    screen.print_reasons([], found)
    assert (
        "input here: cannot run here: mixed, gpu: needs a GPU, and the run's device is cpu"
        in capsys.readouterr().out.splitlines()
    )


@pytest.mark.slow
def test_the_default_input_pipeline_is_ready_everywhere(fake: dict[str, Any]):
    """The one that a user who names none gets."""
    assert {"name": "default", "place": "cpu", "state": "ready", "why": ""} in fake["inputs"]


@pytest.mark.slow
@pytest.mark.parametrize("filled", [False, True])
def test_a_cache_that_cannot_be_written_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: bool
):
    """It is listed; the exit code is 3 unless the cache holds something, which may be all that is
    needed.
    """
    cache = Path("/proc/self" if filled else tmp_path / "afile/cache")
    (tmp_path / "afile").touch()
    monkeypatch.setenv("PODIUM_CACHE", str(cache))
    done = CliRunner().invoke(command, ["fake", "--format", "json"])
    said = json.loads(done.stdout)
    assert said["machine"]["cache_problem"] in said["machine"]["short_of"]
    assert "; set PODIUM_CACHE to a writable folder" in said["machine"]["cache_problem"]
    assert any(each["state"] == "ready" for each in said["workloads"])
    assert isinstance(done.exception, MissingError) != filled, done.exception


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loop", "loop/below", "y" * 300, "new/" + "y" * 300])
def test_a_cache_that_cannot_be_created_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    """A link to itself and a name of 300 characters were not mentioned, though training refuses
    them.
    """
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / name))
    done = CliRunner().invoke(command, ["fake"])
    assert isinstance(done.exception, MissingError), done.output
    assert "set PODIUM_CACHE to a writable folder" in str(done.exception)


@pytest.mark.slow
@pytest.mark.parametrize("content", ["mkdir $0/data", "touch $0/data.lock", "touch $0/data"])
def test_a_full_cache_is_short(tmp_path: Path, content: str):
    """What it holds, even an empty folder, hid that nothing can be added."""
    fill = f'mount -t tmpfs -o size=4k none "$0"; {content}; yes >"$0/x" 2>&-; exec "$@"'
    words = require_namespaces(["unshare", "-rm", "sh", "-c", fill, str(tmp_path)])
    done = subprocess.run(
        [*words, sys.executable, "-m", "podium", "doctor", "gnmt"],
        env={**os.environ, "PODIUM_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3 and "No space left on device; set PODIUM_CACHE" in done.stderr
