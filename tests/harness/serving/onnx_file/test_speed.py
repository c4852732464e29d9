"""`podium infer --onnx` and `podium sweep --onnx`: any file under LoadGen, as studies that the judge
recomputes.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from click.testing import CliRunner, Result

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.commands.infer import infer
from harness.commands.sweep import sweep
from harness.request import build_reading_options
from harness.serving.onnx_file.inference import OnnxInference
from harness.serving.onnx_file.network import OnnxNetwork, open_onnx_networks
from harness.serving.onnx_file.speed import round_up_to_step, set_up_file_serving
from suite import registry
from suite.errors import MissingError, RequestError
from suite.records import read_served_run
from suite.studies.measured import read_measured_study
from suite.studies.speed import NOT_SUBMITTABLE
from suite.terms import Profile

from .conftest import save

Writer = Callable[..., Path]
SHORT = (
    "--threads",
    "1",
    "--power",
    "off",
    "--engine",
    "onnxruntime",
    "--set",
    "loadgen.min_duration_ms=200",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))


def invoked(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [*map(str, arguments)], catch_exceptions=False)


def errors(path: Path) -> list[str]:
    return [
        finding.rule
        for finding in Judge().judge_path(str(path)).findings
        if finding.severity is Severity.ERROR
    ]


def served(network: OnnxNetwork, tmp_path: Path, **settings: object) -> OnnxInference:
    """The system under test of a file, in this process."""
    options = build_reading_options(Profile.SMOKE, None, tmp_path / "r")
    chosen = tuple(f"{key}={value}" for key, value in settings.items())
    options = replace(options, engine="onnxruntime", threads=1, assignments=chosen)
    run = set_up_file_serving(network, options).system.run
    return OnnxInference(run, network, registry.load_engine("onnxruntime"))


def test_answers_are_the_first_output_of_each_sample(
    write_classifier: Writer, tmp_path: Path
) -> None:
    """Compared with ONNX Runtime itself, for batches of any size."""
    path = write_classifier()
    data = tmp_path / "data"
    data.mkdir()
    arrays = np.random.default_rng(1).standard_normal((5, 3, 4, 4)).astype(np.float32)
    for number, array in enumerate(arrays):
        np.save(data / f"{number}.npy", array)
    (network,) = open_onnx_networks([path], {"picture": (4, 3, 4, 4)}, data)
    inference = served(network, tmp_path)
    assert inference.sample_count == 5
    inference.load(range(5))
    predictor = inference.open(0, 4)
    predictor.warm_up()
    (wanted,) = onnxruntime.InferenceSession(path).run(None, {"picture": arrays})
    for samples in ([0], [3, 1], [4, 3, 2, 1]):
        found = [np.frombuffer(answer, np.float32) for answer in predictor(samples)]
        np.testing.assert_allclose(found, wanted[samples], rtol=1e-5, atol=1e-6)
    inference.close()


def test_random_samples_are_a_function_of_their_number(text_file: Path, tmp_path: Path) -> None:
    """So that two runs measure the same."""
    (network,) = open_onnx_networks([text_file], {"tokens": (1, 6)}, None)
    first, second = served(network, tmp_path), served(network, tmp_path)
    for each in (first, second):
        each.load([0, 1])
    one, other = first.open(0, 2)([0, 1]), second.open(0, 2)([0, 1])
    assert one == other and one[0] != one[1]
    assert {tensor.dtype for tensor in first._held[0]} == {torch.int64}
    assert set(first._held[0][0].tolist()) <= {0, 1}
    first.unload([0])
    assert 0 not in first._held


def test_a_network_that_the_sizes_do_not_fit_is_a_sentence(
    write_classifier: Writer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And ONNX Runtime's own lines stay away."""
    path = write_classifier("N", 3, "height", "width")
    (network,) = open_onnx_networks([path], {"picture": (1, 3, 8, 8)}, None)
    predictor = served(network, tmp_path).open(0, 1)
    with pytest.raises(RequestError, match=r"does not run with picture Nx3x8x8 at batch 1; other"):
        predictor.warm_up()
    assert "ExecuteKernel" not in capfd.readouterr().err


def test_what_the_engine_cannot_run_is_a_sentence(write_classifier: Writer, tmp_path: Path) -> None:
    """ONNX Runtime's errors have no common class."""
    import onnx

    path = write_classifier()
    model = onnx.load(path)
    model.graph.node[0].input[0] = "logit"  # a circle
    onnx.save(model, path)
    (network,) = open_onnx_networks([path], {}, None)
    with pytest.raises(MissingError, match=r"engine onnxruntime cannot run net\.onnx: ") as told:
        served(network, tmp_path)
    assert "\n" not in str(told.value) and str(told.value).endswith("the graph is not acyclic.")


@pytest.mark.parametrize(
    ("ir_version", "opset", "why"),
    [
        (99, 17, r"net\.onnx has IR version 99; ONNX Runtime [\d.]+ reads up to \d+: save it with"),
        (
            10,
            9999,
            r"net\.onnx has opset 9999 of ai\.onnx; ONNX Runtime [\d.]+ reads up to \d+: exp",
        ),
    ],
)
def test_a_file_of_a_newer_version_is_told_the_way_out(
    write_classifier: Writer, tmp_path: Path, ir_version: int, opset: int, why: str
) -> None:
    """At once, and with the reason, which stood behind a C++ signature."""
    import onnx

    path = write_classifier()
    model = onnx.load(path)
    model.ir_version, model.opset_import[0].version = ir_version, opset
    onnx.save(model, path)
    with pytest.raises(MissingError, match=why):
        invoked(infer, "--onnx", path, *SHORT, "--results", tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("dtype", ["BFLOAT16", "FLOAT16", "BOOL", "UINT16"])
def test_outputs_of_any_number_are_handed_on(
    dtype: str, write_classifier: Writer, tmp_path: Path
) -> None:
    """And an output that is no tensor stays where it is."""
    import onnx
    from onnx import helper

    path = write_classifier()
    model = onnx.load(path)
    kind = onnx.TensorProto.DataType.Value(dtype)
    model.graph.node.extend(
        [
            helper.make_node("Cast", ["logit"], ["first"], to=kind),
            helper.make_node("SplitToSequence", ["logit"], ["parts"], axis=1),
        ]
    )
    del model.graph.output[:]
    parts = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    model.graph.output.extend(
        [
            helper.make_tensor_value_info("first", kind, ["N", 10]),
            helper.make_value_info("parts", parts),
        ]
    )
    onnx.save(model, path)
    (network,) = open_onnx_networks([path], {"picture": (4, 3, 4, 4)}, None)
    inference = served(network, tmp_path)
    inference.load([0, 1])
    predictor = inference.open(0, 4)
    predictor.warm_up()
    sizes = {"BFLOAT16": 20, "FLOAT16": 20, "BOOL": 10, "UINT16": 20}
    assert [len(each) for each in predictor([0, 1])] == [sizes[dtype]] * 2
    inference.close()


def test_an_empty_cache_is_an_input(tmp_path: Path) -> None:
    """A decoder's first step."""
    from onnx import TensorProto, helper

    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ("batch", 2, length, 4))
        for name, length in (("past", "past_len"), ("new", "seq"))
    ]
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["present"], axis=2),
        helper.make_node("ReduceMean", ["present"], ["y"], axes=[2, 3], keepdims=0),
    ]
    path = save(tmp_path / "step.onnx", nodes, inputs, ["y"])
    given = {"past": (1, 2, 0, 4), "new": (1, 2, 3, 4)}
    (network,) = open_onnx_networks([path], given, None)
    inference = served(network, tmp_path)
    inference.load([0])
    predictor = inference.open(0, 1)
    predictor.warm_up()
    assert len(predictor([0])[0]) == 8
    assert network.describe_inputs()["onnx.shape.past"] == "Nx2x0x4"


@pytest.mark.parametrize(
    ("latency", "bound"), [(0.02, 0.02), (1.0, 1), (1.1, 2), (4.9, 5), (5.1, 10), (70, 100)]
)
def test_a_bound_is_rounded_up(latency: float, bound: float) -> None:
    assert round_up_to_step(latency) == pytest.approx(bound)


@pytest.mark.slow
def test_a_file_is_measured_in_the_scenarios_and_judged(
    write_classifier: Writer, tmp_path: Path
) -> None:
    path, results = write_classifier(), tmp_path / "results"
    told = invoked(infer, "--onnx", path, *SHORT, "--within-ms", 2000, "--results", results).output
    assert f".onnx: {NOT_SUBMITTABLE} (the ONNX file net.onnx)" in told
    (study,) = (results / "studies").glob("net-*.onnx-speed")
    read = read_measured_study(study)
    assert read.is_finished and {row.point.scenario for row in read.rows} == {
        "SingleStream",
        "MultiStream",
        "Server",
        "Offline",
    }
    stamps = read.subject
    assert (f"{stamps.workload}-speed", stamps.framework) == (study.name, "onnx")
    assert errors(results) == []
    assert errors(study) == []


@pytest.mark.slow
def test_other_shapes_replace_what_was_measured(text_file: Path, tmp_path: Path) -> None:
    """A table never mixes the rates of two shapes."""
    results = tmp_path / "results"
    for shape, scenario in (("tokens=1,8", "offline"), ("tokens=1,16", "single-stream")):
        invoked(
            infer,
            "--onnx",
            text_file,
            "--shape",
            shape,
            "--scenario",
            scenario,
            *SHORT,
            "--results",
            results,
        )
    (study,) = (results / "studies").glob("text-*.onnx-speed")
    read = read_measured_study(study)
    assert read.is_finished and [row.point.scenario for row in read.rows] == ["SingleStream"]
    (record,) = study.glob("*/*/run.json")
    assert read_served_run(record.parent).settings["onnx.shape.mask"] == "Nx16"


@pytest.mark.slow
def test_files_are_swept_beside_each_other_and_judged(
    write_classifier: Writer, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from suite.studies import sweep as kind

    monkeypatch.setattr(kind, "choose_longer_run", lambda row, seconds: None)
    results = tmp_path / "results"
    arguments = ("--onnx", write_classifier(), "--onnx", text_file, "--shape", "tokens=1,8")
    every = (*arguments, "--batches", "1,4", "--seconds", "0.2", *SHORT[:-2])
    told = invoked(sweep, *every, "--results", results).output
    for name in ("net", "text"):
        (study,) = (results / "studies").glob(f"{name}-*.onnx")
        assert f"saved in {study}" in told
        table = read_measured_study(study)
        assert table.request.bare and [row.point.batch for row in table.rows] == [1, 4]
        assert all(row.figures.samples_per_second > 0 for row in table.rows)
    assert errors(results) == []
    before = {path: path.stat().st_mtime_ns for path in results.rglob("mlperf_log_detail.txt")}
    invoked(sweep, *every, "--results", results)
    after = {path: path.stat().st_mtime_ns for path in results.rglob("mlperf_log_detail.txt")}
    assert before == after and len(before) == 6


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--shape", "x=1"), "--shape requires --onnx"),
        (("--value", "x=1"), "--value requires --onnx"),
        (("--within-ms", "5"), "--within-ms requires --onnx"),
        (("--onnx", "net.onnx"), "--onnx net.onnx: omit resnet50, or --onnx"),
    ],
)
def test_options_of_a_file_belong_to_it(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(RequestError, match=why) as told:
        invoked(infer, "resnet50", *arguments)
    assert told.value.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--peak",), "--peak with --onnx"),
        (("--mode", "accuracy"), "--mode with --onnx"),
        (("--weights", "random"), "--weights with --onnx"),
        (("--endpoint", "grpc://h:1"), "--endpoint with --onnx"),
        (("--framework", "torch"), "--framework with --onnx"),
        (("--engine", "torch"), "engine torch does not accept onnx networks"),
        (
            ("--set", "sut.instances=3"),
            "setting sut.instances: an ONNX file is served in one process",
        ),
        (("--set", "sut.pin=on"), "setting sut.pin: an ONNX file is served in one process"),
        (("--set", "sut.loadgen_cores=7"), "setting sut.loadgen_cores: an ONNX file is served"),
        (("--precision", "int8"), "no engine runs ONNX files in int8"),
        (
            ("--shape", "picture=2,3,4,4", "--set", "batching.max_batch=4"),
            "--shape asks for batches of 2, --set batching.max_batch for 4",
        ),
    ],
)
def test_what_a_file_has_not_is_refused(
    arguments: tuple[str, ...], why: str, write_classifier: Writer, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=why) as told:
        invoked(infer, "--onnx", write_classifier(), *arguments, "--results", tmp_path / "results")
    assert told.value.exit_code == 2 and not (tmp_path / "results").exists()


def test_nothing_to_serve_is_a_usage_error() -> None:
    assert "name a WORKLOAD, or a file with --onnx" in invoked(infer).output


@pytest.mark.parametrize(
    ("sizes", "arguments", "why"),
    [
        ((1, 3, 4, 4), (), "is not free, so it answers one sample at a time"),
        (("N", 3, 4, 4), ("--data", "."), "no samples: an ONNX file takes"),
        (
            ("N", 3, 4, 4),
            ("--engine", "onnxruntime", "--set", "sut.instances=2"),
            "sut.instances: an ONNX file is served in one",
        ),
        (("N", 3, 4, 4), ("--network", "alexnet", "--data", "."), "--data requires exactly one"),
    ],
)
def test_a_sweep_that_a_file_does_not_allow_is_refused(
    sizes: tuple[int | str, ...],
    arguments: tuple[str, ...],
    why: str,
    write_classifier: Writer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_classifier(*sizes)
    with pytest.raises(RequestError, match=why):
        invoked(sweep, "--onnx", path, *arguments, "--results", tmp_path / "results")
    assert not (tmp_path / "results").exists()
