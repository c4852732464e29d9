"""Engines that were built ahead of time, served by a double of TensorRT for RTX: what fits is
loaded, what does not is refused in a sentence.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from podium_fakes import trt

from extras.tensorrt import engine as engine_module
from extras.tensorrt import prebuilt
from extras.tensorrt.ahead_of_time import (
    AheadBuilder,
    check_build_folder,
    fill_build_folder,
)
from extras.tensorrt.engine import TensorRTEngine, TensorRTExecutable
from extras.tensorrt.library import RTX, TensorRTLibrary
from suite.engine import Network, Plan, ShapeProfile
from suite.errors import MissingError, PodiumError, RequestError
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.terms import Precision

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow  # loading PyTorch's exporter takes seconds

SIDE, MOST = 6, 8
CHECKPOINT = "c" * 64
SYSTEM = prebuilt.ServedSystem(
    workload="small",
    checkpoint_sha256=CHECKPOINT,
    precision="fp32",
    gpu="NVIDIA L4",
    capability=(8, 9),
)


def small(seed: int = 0, most: int = MOST) -> Network[Any]:
    torch.manual_seed(seed)
    return Network(
        name="small",
        module=torch.nn.Linear(SIDE, 3),
        framework="torch",
        inputs=(torch.zeros(1, SIDE),),
        input_names=("rows",),
        output_names=("mapped",),
        dimensions=({0: "batch"},),
        shapes=ShapeProfile(minimum=((1, SIDE),), usual=((4, SIDE),), maximum=((most, SIDE),)),
    )


def plan(cache: Path, **options: Any) -> Plan[Any]:
    return Plan(
        device="cuda:0",
        precision=Precision.FP32,
        threads=1,
        max_batch=MOST,
        cache=cache,
        options={f"engine.{name}": value for name, value in options.items()},
    )


def rtx() -> TensorRTLibrary:
    return TensorRTLibrary(kind=RTX, module=trt)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(prebuilt, "load_library", lambda kind: rtx())
    trt.forget()
    yield
    trt.forget()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


@pytest.fixture
def folder(cache: Path, tmp_path: Path) -> Path:
    """An engine for the L4, as `podium build` writes it."""
    builder = AheadBuilder(rtx(), [(8, 9)], tmp_path)
    builder.build_network(small(), plan(cache))
    assert builder.refused == []
    manifest = prebuilt.PrebuiltManifest(
        workload="small",
        round="podium-v1",
        profile="smoke",
        checkpoint_sha256=CHECKPOINT,
        library=RTX.name,
        library_version=trt.__version__,
        podium_version="0.1.0",
        engines=tuple(builder.engines),
        refused=(),
    )
    prebuilt.write_manifest(tmp_path, manifest)
    return tmp_path


def rewrite(folder: Path, **changes: Any) -> None:
    prebuilt.write_manifest(folder, replace(prebuilt.read_manifest(folder), **changes))


def served(
    folder: Path, cache: Path, network: Network[Any] | None = None, capability: str = "8.9"
) -> TensorRTExecutable:
    gpu = trt.Gpu()
    gpu.name, gpu.capability = "NVIDIA L4", capability
    return TensorRTExecutable(network or small(), plan(cache, plans=str(folder)), rtx(), gpu)


def test_what_fits_answers_and_builds_nothing(folder: Path, cache: Path) -> None:
    """A T4's host may lack the memory and the exporter to build."""
    trt.forget()
    executable = served(folder, cache)
    assert not [call for call in trt.calls if call[0] in ("parse_from_file", "create_network")]
    rows_NF = torch.randn(3, SIDE)
    torch.testing.assert_close(executable.open()(rows_NF)[0], small().module(rows_NF).detach())
    facts = executable.describe()
    assert facts["exporter"] == "dynamo" and facts["gpu"] == "NVIDIA L4"
    prebuilt.check_prebuilt_engines(folder, SYSTEM)


def test_the_manifest_says_what_was_built(folder: Path) -> None:
    (entry,) = prebuilt.read_manifest(folder).engines
    assert (entry.target, entry.precision, entry.layers > 0) == ("sm89", "fp32", True)
    assert entry.weights_bytes == 4096 and entry.activation_bytes is None
    assert entry.file_bytes == (folder / entry.file).stat().st_size
    assert entry.profiles == "[1, 6]; [8, 6]; [1, 6] to [8, 6]"


@pytest.mark.parametrize(
    ("change", "kind", "told"),
    [
        ({"workload": "other"}, RequestError, "built for workload small, not for other"),
        ({"checkpoint_sha256": "d"}, RequestError, f"built for checkpoint {CHECKPOINT}, not for d"),
        ({"precision": "int8"}, RequestError, "not built in int8, only in fp32"),
        (
            {"gpu": "NVIDIA T4", "capability": (7, 5)},
            MissingError,
            "built for sm89 in fp32, but NVIDIA T4 is sm75",
        ),
    ],
)
def test_engines_of_another_system_are_refused_before_the_clock(
    folder: Path, change: dict[str, Any], kind: type[PodiumError], told: str
) -> None:
    """Served all the same, the result would be of another model, or crash on the first query."""
    with pytest.raises(kind, match=told):
        prebuilt.check_prebuilt_engines(folder, replace(SYSTEM, **change))


def test_engines_of_another_version_are_refused(folder: Path) -> None:
    rewrite(folder, library_version="1.6.0")
    with pytest.raises(MissingError, match="built by TensorRT for RTX 1.6.0, and here is 11.4"):
        prebuilt.check_prebuilt_engines(folder, SYSTEM)
    rewrite(folder, library="Mystery")
    with pytest.raises(RequestError, match="built by the unknown library Mystery"):
        prebuilt.check_prebuilt_engines(folder, SYSTEM)


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"workload": 3}', b"\xff" * 9])
def test_a_folder_without_a_manifest_is_refused(folder: Path, content: bytes | None) -> None:
    path = folder / prebuilt.MANIFEST_FILE
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(RequestError, match=r"--plans .*plans.json: .*podium build writes one"):
        prebuilt.check_prebuilt_engines(folder, SYSTEM)


def test_damaged_engines_are_refused(folder: Path, cache: Path) -> None:
    """TensorRT checks little of a file that it trusts."""
    (path,) = folder.glob("*.engine")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(RequestError, match="damaged: its SHA-256 differs from plans.json's"):
        served(folder, cache)
    path.unlink()
    with pytest.raises(RequestError, match="small-fp32-sm89.engine: No such file"):
        served(folder, cache)


@pytest.mark.parametrize(
    ("network", "told"),
    [
        (lambda: small(seed=1), "built for other weights of network small"),
        (lambda: small(most=4), "built for other sizes of network small"),
        (lambda: replace(small(), name="head"), "holds no engine of network head"),
    ],
)
def test_engines_of_another_network_are_refused(
    folder: Path, cache: Path, network: Any, told: str
) -> None:
    """A manifest can be edited; the weights are in the engine, and their hash is with it."""
    with pytest.raises(RequestError, match=told):
        served(folder, cache, network())


@pytest.mark.parametrize(
    ("claimed", "capability", "told"),
    [
        ({"network": "small", "target": "sm75"}, "7.5", "built for other targets"),
        ({"network": "head"}, "8.9", "built for other networks"),
    ],
)
def test_an_engine_that_the_manifest_names_wrongly_is_refused(
    folder: Path, cache: Path, claimed: dict[str, str], capability: str, told: str
) -> None:
    """What an engine was built for is in its own header, too."""
    (entry,) = prebuilt.read_manifest(folder).engines
    rewrite(folder, engines=(replace(entry, **claimed),))
    with pytest.raises(RequestError, match=told):
        served(folder, cache, replace(small(), name=claimed["network"]), capability)


def test_an_engine_in_another_number_format_than_the_manifest_says_is_refused(
    folder: Path, cache: Path
) -> None:
    """fp16's speed would be reported as fp32's."""
    (entry,) = prebuilt.read_manifest(folder).engines
    rewrite(folder, engines=(replace(entry, precision="tf32"),))
    with pytest.raises(RequestError, match="built for other number formats"):
        prebuilt.read_prebuilt_engine(
            folder, small(), replace(plan(cache), precision=Precision.TF32), (8, 9), "NVIDIA L4"
        )


def test_a_build_replaces_its_own_files_alone(folder: Path) -> None:
    """Any program may write a plans.json, and what lies beside the folder is somebody's."""
    check_build_folder(folder)
    beside = [folder.with_name(folder.name + suffix) for suffix in (".partial", ".replaced")]
    for each in beside:
        each.mkdir()
    with fill_build_folder(folder) as partial:
        (partial / "new").touch()
    assert [each.name for each in folder.iterdir()] == ["new"] and all(map(Path.exists, beside))
    assert sorted(folder.parent.glob(f"{folder.name}*")) == sorted([folder, *beside])


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (None, r"holds other files \(thesis.tex\)"),
        ("{}", "-o .*: plans.json: .*podium build writes"),
    ],
)
def test_a_folder_with_files_of_others_is_not_replaced(
    folder: Path, manifest: str | None, told: str
) -> None:
    (folder / "thesis.tex").touch()
    if manifest is not None:
        (folder / prebuilt.MANIFEST_FILE).write_text(manifest)
    with pytest.raises(RequestError, match=told):
        check_build_folder(folder)


def test_a_signal_that_the_library_swallows_ends_the_build(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It arrives while TensorRT logs through Python, and the other targets are not built first."""
    tried: list[Any] = []

    def swallow(_: AheadBuilder, __: Network[Any], ___: Plan[Any], capability: Any) -> None:
        tried.append(capability)
        with suppress(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(AheadBuilder, "build_for_target", swallow)
    builder = AheadBuilder(rtx(), [(7, 5), (8, 9)], tmp_path)
    with pytest.raises(Interrupted), raise_signals_in_block():
        builder.build_network(small(), plan(cache))
    assert tried == [(7, 5)] and not builder.engines


def test_an_exchange_that_fails_leaves_the_earlier_engines(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(each.name for each in folder.iterdir())
    rename = Path.rename

    def fail_second(source: Path, target: Path) -> Path:
        if source.name.endswith(".partial"):
            raise OSError("no space")
        return rename(source, target)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space"):
        patched.setattr(Path, "rename", fail_second)
        with fill_build_folder(folder):
            pass
    assert sorted(each.name for each in folder.iterdir()) == names
    assert [*folder.parent.glob(f"{folder.name}*")] == [folder]


def test_engines_for_another_gpu_are_refused_when_they_are_loaded(
    folder: Path, cache: Path
) -> None:
    """A driver that does not tell the capability leaves it to PyTorch."""
    with pytest.raises(MissingError, match="built for sm89 in fp32, but NVIDIA L4 is sm75"):
        served(folder, cache, capability="7.5")


def test_what_the_library_does_not_load_is_told_in_its_words(folder: Path, cache: Path) -> None:
    trt.trouble["deserialize_cuda_engine"] = "CUDA driver version is insufficient"
    with pytest.raises(MissingError, match="cannot load it here: CUDA driver version"):
        served(folder, cache)


def test_other_calibration_samples_are_refused(folder: Path, cache: Path) -> None:
    """The measurements would name samples that the ranges do not come from."""
    from suite.engine import Calibration

    samples: Calibration[Any] = Calibration(
        inputs=(),
        list_name="l",
        listed=("a",),
        samples=("a",),
        sha256=("b",),
        touched=(),
        method="m",
    )
    asked = replace(plan(cache, plans=str(folder)), calibration=samples)
    gpu = trt.Gpu()
    gpu.capability = "8.9"
    with pytest.raises(RequestError, match="built for other calibration of network small"):
        TensorRTExecutable(small(), asked, rtx(), gpu)


def test_one_refused_network_refuses_the_combination(cache: Path, tmp_path: Path) -> None:
    """A detector without its head serves nothing: what was built of it goes, other targets stay."""
    builder = AheadBuilder(rtx(), [(7, 5), (8, 9)], tmp_path)
    builder.build_network(small(), plan(cache))
    trt.trouble["build_serialized_network"] = (
        "Error Code 1: Myelin ([pass.cpp:337: check] Cannot compile operation 'node_linear' for"
        " Turing (SM75): FP32 GEMM is not supported. In compileGraph at /_src/a.cpp:2012)"
    )
    head = AheadBuilder(rtx(), [(7, 5)], tmp_path, builder.engines, builder.refused)
    head.build_network(replace(small(), name="head"), plan(cache))
    assert [each.file for each in builder.engines] == ["small-fp32-sm89.engine"]
    assert [path.name for path in tmp_path.glob("*.engine")] == ["small-fp32-sm89.engine"]
    (refused,) = builder.refused
    assert refused.reason == (
        "network head: TensorRT for RTX 11.4.0.106 cannot build it in fp32 for sm75: Cannot compile"
        " operation 'node_linear' for Turing (SM75): FP32 GEMM is not supported"
    )


def test_a_number_format_that_a_target_lacks_names_the_layer(cache: Path, tmp_path: Path) -> None:
    builder = AheadBuilder(rtx(), [(7, 5)], tmp_path)
    builder.build_network(small(), replace(plan(cache), precision=Precision.BF16))
    (refused,) = builder.refused
    assert refused.reason.startswith("network small: Gemm node_linear computes in bf16")
    assert refused.reason.endswith("from compute capability 8.0, and sm75 has 7.5")


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.FP16])
def test_a_precision_is_tried_before_the_clock(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workload's trial networks have no samples, so int8 was refused as if it had no code."""
    built: list[Plan[Any]] = []

    class Executable:
        def open(self) -> Any:
            return lambda rows_NF: (rows_NF,)

    def compile_network(self: Any, network: Network[Any], plan: Plan[Any]) -> Executable:
        built.append(plan)
        return Executable()

    monkeypatch.setattr(engine_module.TensorRTEngine, "compile", compile_network)
    TensorRTEngine().trial("cpu", precision)
    (asked,) = built
    assert (asked.calibration is not None) == (precision is Precision.INT8)
