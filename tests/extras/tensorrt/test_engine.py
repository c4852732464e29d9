"""The TensorRT engine against a recording double of its API: what is asked of TensorRT, what is
kept, what is refused.
"""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from podium_fakes import trt

from extras.tensorrt import engine as engine_module
from extras.tensorrt import library as library_module
from extras.tensorrt import plan as trt_plan
from extras.tensorrt.engine import TensorRTEngine, TensorRTExecutable
from extras.tensorrt.execution import TensorRTCall
from extras.tensorrt.library import DATACENTRE, RTX, TensorRTLibrary
from suite.engine import Network, Plan, ShapeProfile
from suite.errors import MissingError, RequestError
from suite.process.installation import format_install_command
from suite.terms import Precision

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow  # most export, and loading PyTorch's exporter takes seconds

SIDE, MOST = 6, 8
DOCUMENTED = {
    "Builder.create_network": ["flags"],
    "Builder.create_builder_config": [],
    "Builder.create_optimization_profile": [],
    "Builder.build_serialized_network": ["network", "config"],
    "IBuilderConfig.set_flag": ["flag"],
    "IBuilderConfig.clear_flag": ["flag"],
    "IBuilderConfig.set_memory_pool_limit": ["pool", "pool_size"],
    "IBuilderConfig.add_optimization_profile": ["profile"],
    "IBuilderConfig.create_timing_cache": ["serialized_timing_cache"],
    "IBuilderConfig.set_timing_cache": ["cache", "ignore_mismatch"],
    "ITimingCache.serialize": [],
    "IOptimizationProfile.set_shape": ["input", "min", "opt", "max"],
    "INetworkDefinition.get_input": ["index"],
    "OnnxParser.parse_from_file": ["model"],
    "OnnxParser.get_error": ["index"],
    "ParserError.desc": [],
    "ParserError.node_name": [],
    "ParserError.node_operator": [],
    "Runtime.deserialize_cuda_engine": ["serialized_engine"],
    "ICudaEngine.get_tensor_name": ["index"],
    "ICudaEngine.get_tensor_dtype": ["name"],
    "IExecutionContext.set_optimization_profile_async": ["profile_index", "stream_handle"],
    "IExecutionContext.set_input_shape": ["name", "shape"],
    "IExecutionContext.set_tensor_address": ["name", "memory"],
    "IExecutionContext.get_tensor_shape": ["name"],
    "IExecutionContext.execute_async_v3": ["stream_handle"],
}
"""Method -> its parameters, as the bindings of TensorRT 11.4.0 tell them
(`help(tensorrt.Builder)`).
"""
RTX_DOCUMENTED = {
    "IBuilderConfig.set_compute_capability": ["compute_capability", "index"],
    "ICudaEngine.create_runtime_config": [],
    "ICudaEngine.create_execution_context": ["runtime_config"],
    "IRuntimeConfig.create_runtime_cache": [],
    "IRuntimeConfig.set_runtime_cache": ["cache"],
    "IRuntimeCache.deserialize": ["blob"],
    "IRuntimeCache.serialize": [],
}
"""The same of what TensorRT for RTX 1.7.1 adds."""
READ = {
    "ITensor": ["name", "is_shape_tensor"],
    "INetworkDefinition": ["num_inputs", "num_layers"],
    "IBuilderConfig": ["builder_optimization_level"],
    "OnnxParser": ["num_errors"],
    "ICudaEngine": ["num_io_tensors", "create_execution_context"],
}
"""Attributes that the engine reads or sets."""


class Small(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Two outputs, one of the input's shape."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(SIDE, 3)

    def forward(self, rows_NF: Any) -> Any:
        return self.layer(rows_NF), rows_NF * 2


class Step(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Writes into a cache that it gives back."""

    def forward(self, value_N: Any, cache_NS: Any) -> Any:
        return torch.cat([cache_NS[:, 1:], value_N[:, None]], dim=1)


def small(module: Any = None) -> Network[Any]:
    shapes = ShapeProfile(minimum=((1, SIDE),), usual=((4, SIDE),), maximum=((MOST, SIDE),))
    return Network(
        name="small",
        module=module or Small(),
        framework="torch",
        inputs=(torch.zeros(1, SIDE),),
        input_names=("rows",),
        output_names=("mapped", "doubled"),
        dimensions=({0: "batch"},),
        shapes=shapes,
    )


def step() -> Network[Any]:
    least, most = ((1,), (1, SIDE)), ((MOST,), (MOST, SIDE))
    return Network(
        name="step",
        module=Step(),
        framework="torch",
        inputs=(torch.ones(2), torch.zeros(2, SIDE)),
        input_names=("value", "cache"),
        output_names=("next_cache",),
        dimensions=({0: "batch"}, {0: "batch"}),
        shapes=ShapeProfile(minimum=least, usual=least, maximum=most),
        state={"next_cache": "cache"},
    )


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ONNX files are made once for this module."""
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    trt.forget()
    yield
    trt.forget()


@pytest.fixture
def cache(exports: Path, tmp_path: Path) -> Path:
    (exports / "onnx").mkdir(exist_ok=True)
    (tmp_path / "onnx").symlink_to(exports / "onnx")
    return tmp_path


def plan(cache: Path, precision: Precision = Precision.FP32, **options: Any) -> Plan[Any]:
    named = {f"engine.{name}": value for name, value in options.items()}
    return Plan(
        device="cuda:0", precision=precision, threads=1, max_batch=MOST, cache=cache, options=named
    )


def made(network: Network[Any], plan: Plan[Any], gpu: Any = None) -> TensorRTExecutable:
    library = TensorRTLibrary(kind=DATACENTRE, module=trt)
    return TensorRTExecutable(network, plan, library, gpu or trt.Gpu())


def named(name: str) -> list[tuple[Any, ...]]:
    return [call[1:] for call in trt.calls if call[0] == name]


def engines(cache: Path) -> list[Path]:
    return sorted((cache / "tensorrt").glob("*.engine"))


def test_answers_are_the_network_s_in_every_batch(cache: Path) -> None:
    """Shapes, types, addresses: a wrong one gives numbers, not an error."""
    call = made(small(), plan(cache)).open()
    for size in (1, 3, MOST, 3):
        rows_NF = torch.randn(size, SIDE)
        mapped, doubled = call(rows_NF)
        torch.testing.assert_close(mapped, Small()(rows_NF)[0].detach())
        torch.testing.assert_close(doubled, rows_NF * 2)


def test_the_network_is_strongly_typed_and_fp32_is_not_tf32(cache: Path) -> None:
    """TF32 is set unless somebody clears it, and would be reported as fp32."""
    made(small(), plan(cache))
    assert named("create_network") == [(1,)]
    assert named("clear_flag") == [(trt.BuilderFlag.TF32,)] and not named("set_flag")
    trt.forget()
    made(small(), plan(cache, Precision.TF32))
    assert named("set_flag") == [(trt.BuilderFlag.TF32,)] and not named("clear_flag")


def test_profiles_hold_the_smallest_the_largest_and_all_between(cache: Path) -> None:
    """One profile for 1 to 8 has kernels for its usual size: SingleStream and Offline ask for the
    ends.
    """
    call = made(small(), plan(cache)).open()
    ((level, shapes),) = named("build_serialized_network")
    assert (level, [one["rows"] for one in shapes]) == (
        3,
        [((1, SIDE),) * 3, ((MOST, SIDE),) * 3, ((1, SIDE), (4, SIDE), (MOST, SIDE))],
    )
    for size in (1, 5, MOST, 2):
        call(torch.zeros(size, SIDE))
    assert [number for number, _ in named("set_optimization_profile_async")] == [0, 2, 1, 2]
    with pytest.raises(
        RequestError, match=r"built for \[1, 6\] to \[8, 6\], but called with \[9, 6\]"
    ):
        call(torch.zeros(MOST + 1, SIDE))


def test_each_worker_has_contexts_and_a_stream_of_its_own(cache: Path) -> None:
    """A context must not be used by two threads at once."""
    executable = made(small(), plan(cache))
    first, second = executable.open(), executable.open()
    first(torch.zeros(2, SIDE))
    second(torch.zeros(2, SIDE))
    assert len(named("create_execution_context")) == 2 and {
        handle for _, handle in named("set_optimization_profile_async")
    } == {101, 102}


def test_work_is_recorded_once_a_shape_and_then_replayed(cache: Path) -> None:
    """A context prepares at its first run what may not be recorded; a record per call would cost
    more than it saves.
    """
    call = made(small(), plan(cache)).open()
    first = call(torch.ones(2, SIDE))[0].clone()
    places = {call(torch.full((2, SIDE), float(number)))[1].data_ptr() for number in range(3)}
    assert len(places) == 1 and len(named("record")) == 1
    torch.testing.assert_close(call(torch.ones(2, SIDE))[0], first)
    trt.forget()
    call(torch.zeros(2, SIDE))
    assert [call[0] for call in trt.calls] == ["execute_async_v3"]


def test_no_other_shape_changes_the_context_of_a_graph(cache: Path) -> None:
    """What a graph does is not defined once its context was told another shape or address
    (TensorRT, CUDA graphs).
    """
    call = TensorRTCall(made(small(), plan(cache)).built)
    for size in (1, 2, 5, MOST):
        call(torch.zeros(size, SIDE))
    held = [found.context for found in call.recorded.values()]
    assert (
        len({id(context) for context in held})
        == len(held)
        == len(named("create_execution_context"))
        == 4
    )
    assert [context.shapes["rows"] for context in held] == [
        (size, SIDE) for size in (1, 2, 5, MOST)
    ]


def test_without_graphs_a_profile_has_one_context(cache: Path) -> None:
    """Each holds memory for its largest shape."""
    call = made(small(), plan(cache, cuda_graphs=False)).open()
    for size in (2, 3, 4, 2):
        call(torch.zeros(size, SIDE))
    assert len(named("create_execution_context")) == 1


def test_a_cache_goes_round_where_it_lies(cache: Path) -> None:
    """A recorded graph would copy it at every step; one buffer would be written while it is
    read.
    """
    executable = made(step(), plan(cache))
    call, state, seen = executable.open(), torch.zeros(2, SIDE), set()
    for number in range(1, 5):
        (state,) = call(torch.full((2,), float(number)), state)
        seen.add(state.data_ptr())
    assert state[0].tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0] and len(seen) == 2
    assert executable.describe()["cuda_graphs"] is False and not named("record")


def test_graphs_can_be_left_out(cache: Path) -> None:
    call = made(small(), plan(cache, cuda_graphs=False)).open()
    call(torch.zeros(2, SIDE))
    assert not named("record") and len(named("execute_async_v3")) == 1


def test_a_second_process_finds_the_engine_and_timings_are_kept(cache: Path) -> None:
    """A build takes minutes; every LoadGen run is a process of its own."""
    made(small(), plan(cache))
    made(small(), plan(cache))
    assert len(named("build_serialized_network")) == 1 and named("create_timing_cache") == [(b"",)]
    made(small(), plan(cache, optimization_level=5))
    assert named("create_timing_cache") == [(b"",), (b"t",)] and len(engines(cache)) == 2


def test_timings_of_another_gpu_are_begun_anew(cache: Path) -> None:
    made(small(), plan(cache))
    trt.trouble["set_timing_cache"] = "mismatch"
    made(small(), plan(cache, optimization_level=1))
    assert named("create_timing_cache") == [(b"",), (b"t",), (b"",)]


def made_for_rtx(cache: Path, **options: Any) -> TensorRTExecutable:
    library = TensorRTLibrary(kind=RTX, module=trt)
    gpu = trt.Gpu()
    gpu.name, gpu.capability = "NVIDIA L4", "8.9"
    return TensorRTExecutable(small(), plan(cache, **options), library, gpu)


def test_rtx_builds_for_the_capability_of_the_gpu(cache: Path) -> None:
    """Without one it builds for Ampere and later, which leaves Turing out; it measures no kernels,
    so there are no timings to keep.
    """
    facts = made_for_rtx(cache).describe()
    assert named("set_compute_capability") == [(trt.ComputeCapability.SM89, 0)]
    assert not named("create_timing_cache") and facts["library"] == "TensorRT for RTX"
    trt.forget()
    made(small(), plan(cache))
    assert not named("set_compute_capability") and named("create_timing_cache")


def test_rtx_keeps_the_kernels_that_it_compiles(cache: Path) -> None:
    """It compiles them when an engine runs: every LoadGen run would wait for it again."""
    made_for_rtx(cache).open()(torch.zeros(2, SIDE))
    (kept,) = (cache / "tensorrt").glob("*.kernels")
    assert kept.read_bytes() == b"k"
    made_for_rtx(cache).open()(torch.zeros(2, SIDE))
    assert named("deserialize") == [(b"k",)] and kept.read_bytes() == b"kk"
    trt.trouble["deserialize"] = "another driver"
    made_for_rtx(cache).open()(torch.zeros(2, SIDE))
    assert kept.read_bytes() == b"k"


def test_rtx_refuses_a_capability_that_it_does_not_know(cache: Path) -> None:
    library = TensorRTLibrary(kind=RTX, module=trt)
    with pytest.raises(MissingError, match="does not support compute capability 9.0; it has sm75"):
        TensorRTExecutable(small(), plan(cache), library, trt.Gpu())


def test_a_library_without_its_parser_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lean and the dispatch runtime have none."""
    monkeypatch.delattr(trt, "OnnxParser")
    with pytest.raises(MissingError, match="TensorRT 11.4.0.106 has no ONNX parser"):
        made(small(), plan(cache))


def test_whatever_decides_an_engine_is_in_its_name(cache: Path) -> None:
    """A stale file would serve another checkpoint, or be refused by another GPU."""
    target = trt_plan.EngineTarget(tensorrt="11.4.0", device="NVIDIA H200", capability="9.0")
    source = cache / "small.onnx"
    source.write_bytes(b"1")
    first = trt_plan.build_engine_request(small(), plan(cache), source, target)
    others = [
        trt_plan.build_engine_request(
            small(), plan(cache), source, replace(target, device="NVIDIA H100")
        ),
        trt_plan.build_engine_request(
            small(), plan(cache), source, replace(target, capability="8.0")
        ),
        trt_plan.build_engine_request(
            small(), plan(cache), source, replace(target, tensorrt="10.9")
        ),
        trt_plan.build_engine_request(small(), plan(cache, Precision.TF32), source, target),
        trt_plan.build_engine_request(small(), plan(cache, optimization_level=4), source, target),
        trt_plan.build_engine_request(small(), plan(cache, workspace_mib=1), source, target),
    ]
    source.write_bytes(b"2")
    others.append(trt_plan.build_engine_request(small(), plan(cache), source, target))
    assert len({one.key for one in (first, *others)}) == 8


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("device", "device NVIDIA T4, here NVIDIA H200"),
        ("tensorrt", "tensorrt NVIDIA T4, here 11.4"),
    ],
)
def test_an_engine_of_another_gpu_or_library_is_refused(cache: Path, field: str, told: str) -> None:
    """Copied beside the right name; TensorRT itself would fail deep inside, or worse, not."""
    executable = made(small(), plan(cache))
    (path,) = engines(cache)
    wished = executable.built.request
    trt_plan.write_engine_file(
        path, replace(wished, target=replace(wished.target, **{field: "NVIDIA T4"})), b"plan"
    )
    with pytest.raises(MissingError, match=f"was built for {told}.*remove it to build again"):
        made(small(), plan(cache))


def test_an_engine_of_another_model_is_refused(cache: Path) -> None:
    executable = made(small(), plan(cache))
    (path,) = engines(cache)
    trt_plan.write_engine_file(
        path, replace(executable.built.request, model_sha256="0" * 64), b"plan"
    )
    with pytest.raises(MissingError, match="was built for model_sha256 0{64}, here"):
        made(small(), plan(cache))


def test_what_is_no_engine_file_is_refused(cache: Path) -> None:
    made(small(), plan(cache))
    engines(cache)[0].write_bytes(b"rubbish")
    with pytest.raises(MissingError, match="not an engine file of podium"):
        made(small(), plan(cache))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            "parse_from_file",
            "network small: TensorRT 11.4.0.106 cannot read it: Mystery node_7: no such operator",
        ),
        (
            "build_serialized_network",
            "network small: TensorRT 11.4.0.106 cannot build it in fp32: no such operator",
        ),
        (
            "deserialize_cuda_engine",
            "TensorRT 11.4.0.106 cannot load it on NVIDIA H200: no such operator",
        ),
        ("add_optimization_profile", r"network small: TensorRT rejects the profile \[1, 6\]"),
    ],
)
def test_what_tensorrt_refuses_is_told_in_its_words(cache: Path, call: str, told: str) -> None:
    """It gives None or False, and tells its log alone; nothing half-made is kept."""
    trt.trouble[call] = "no such operator"
    with pytest.raises(MissingError, match=told):
        made(small(), plan(cache))
    assert not list((cache / "tensorrt").glob("*.partial"))


def test_inputs_that_decide_shapes_are_refused(cache: Path) -> None:
    trt.trouble["is_shape_tensor"] = "rows"
    with pytest.raises(MissingError, match="its input rows determines shapes"):
        made(small(), plan(cache))


def test_outputs_of_unknown_size_are_refused(cache: Path) -> None:
    call = made(small(), plan(cache)).open()
    trt.trouble["get_tensor_shape"] = "unknown"
    with pytest.raises(MissingError, match="the size of its output mapped depends on the data"):
        call(torch.zeros(2, SIDE))


def test_tensors_of_another_type_are_refused(cache: Path) -> None:
    """TensorRT reads bytes at an address, whatever they are."""
    with pytest.raises(
        MissingError, match="the engine's rows is float32, but the input is float64"
    ):
        made(small(), plan(cache)).open()(torch.zeros(2, SIDE, dtype=torch.float64))


def test_a_full_memory_at_the_build_names_the_batch(cache: Path) -> None:
    trt.trouble["build_serialized_network"] = "Error Code 1: Cuda Runtime (out of memory)"
    with pytest.raises(
        MissingError,
        match="not enough memory to build for a batch of 8: --set batching.max_batch=4",
    ):
        made(small(), plan(cache))


@pytest.mark.parametrize(
    "words",
    [
        "Error Code 2: OutOfMemory (Requested size was 24159191040 bytes.)",
        "CUBLAS_STATUS_ALLOC_FAILED when calling",
    ],
)
def test_a_full_memory_is_known_by_its_other_names(cache: Path, words: str) -> None:
    trt.trouble["build_serialized_network"] = words
    with pytest.raises(MissingError, match="not enough memory to build for a batch of 8"):
        made(small(), plan(cache))


@pytest.mark.parametrize("call", ["create_execution_context", "execute_async_v3"])
def test_a_full_memory_in_a_call_names_the_batch_and_the_largest_that_fitted(
    cache: Path, call: str
) -> None:
    run = made(small(), plan(cache)).open()
    run(torch.zeros(1, SIDE))
    trt.trouble[call] = "Error Code 1: Cuda Runtime (out of memory)"
    with pytest.raises(
        MissingError, match="a batch of 5; the largest that fitted is 1: --set batching.max_batch=1"
    ):
        run(torch.zeros(5, SIDE))


def test_other_failures_stay_what_they_are(cache: Path) -> None:
    call = made(small(), plan(cache)).open()
    trt.trouble["execute_async_v3"] = "illegal address"
    with pytest.raises(RuntimeError, match="TensorRT rejects the work: illegal address"):
        call(torch.zeros(5, SIDE))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"optimization_level": 6}, "TensorRT has 0 to 5"),
        ({"workspace_mib": -1}, "must not be negative"),
    ],
)
def test_options_without_sense_are_refused(cache: Path, options: dict[str, int], told: str) -> None:
    with pytest.raises(RequestError, match=told):
        made(small(), plan(cache, **options))


def test_networks_that_name_no_sizes_are_refused(cache: Path) -> None:
    with pytest.raises(
        RequestError, match="network small: TensorRT needs its smallest, usual and largest shapes"
    ):
        made(replace(small(), shapes=None), plan(cache))
    fixed = replace(small(), shapes=None, dimensions=({},))
    assert trt_plan.build_shape_profiles(fixed) == ((((1, SIDE),) * 3,),)


def test_what_was_built_is_told(cache: Path) -> None:
    facts = made(small(), plan(cache, workspace_mib=64)).describe()
    assert (facts["tensorrt"], facts["gpu"], facts["compute_capability"], facts["precision"]) == (
        "11.4.0.106",
        "NVIDIA H200",
        "9.0",
        "fp32",
    )
    assert facts["profiles"] == "[1, 6]; [8, 6]; [1, 6] to [8, 6]"
    assert facts["exporter"] == "dynamo" and facts["cuda_graphs"] is True
    assert named("set_memory_pool_limit") == [(trt.MemoryPoolType.WORKSPACE, 64 << 20)]


def test_an_old_tensorrt_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 10 the number format was the builder's choice, not the file's."""
    monkeypatch.setattr(trt, "__version__", "8.6.1")
    with pytest.raises(MissingError, match="needs TensorRT 10 or newer; installed: 8.6.1"):
        made(small(), plan(cache))


@pytest.mark.parametrize(
    ("device", "precision", "capability", "told"),
    [
        ("cpu", Precision.FP32, None, "runs on NVIDIA GPUs only"),
        (
            "cuda:0",
            Precision.FP8,
            (8, 0),
            "has fp8 from compute capability 8.9, and this GPU has 8.0",
        ),
        (
            "cuda:0",
            Precision.BF16,
            (7, 5),
            "has bf16 from compute capability 8.0, and this GPU has 7.5",
        ),
        ("cuda:0", Precision.FP8, (9, 0), None),
        ("cuda:0", Precision.INT4, None, None),
    ],
)
def test_what_a_machine_lacks_is_told(
    device: str,
    precision: Precision,
    capability: tuple[int, int] | None,
    told: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library_module, "find_spec", lambda name: object())
    monkeypatch.setattr(engine_module, "find_gpu_capability", lambda number: capability)
    assert TensorRTEngine().missing(device, precision) == told


@pytest.mark.parametrize(
    ("absent", "told"),
    [
        (
            {"tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings"},
            "neither tensorrt nor tensorrt_rtx is installed: "
            f"{format_install_command('tensorrt')}, or tensorrt-rtx for RTX cards and T4",
        ),
        ({"tensorrt", "onnx"}, f"onnx not installed: {format_install_command('tensorrt-rtx')}"),
        ({"tensorrt_rtx", "onnx"}, f"onnx not installed: {format_install_command('tensorrt')}"),
    ],
)
def test_a_package_that_is_not_installed_names_the_extra(
    absent: set[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the library that is installed: TensorRT where both are."""

    for module in (engine_module, library_module):
        monkeypatch.setattr(module, "find_spec", lambda name: None if name in absent else object())
    assert TensorRTEngine().missing("cuda:0", Precision.FP32) == told
    with pytest.raises(MissingError, match="engine tensorrt: .* installed"):
        TensorRTEngine().compile(small(), plan(Path()))


def test_rtx_alone_refuses_a_gpu_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hopper: the wheels install there, and no engine runs."""
    monkeypatch.setattr(
        library_module, "find_spec", lambda name: None if name == "tensorrt" else object()
    )
    monkeypatch.setattr(engine_module, "find_gpu_capability", lambda number: (9, 0))
    told = TensorRTEngine().missing("cuda:0", Precision.FP16)
    assert told and "TensorRT for RTX supports compute capability 7.5, 8.0, 8.6" in told
    assert told.endswith(f"and this GPU has 9.0: {format_install_command('tensorrt')}")


def test_networks_of_other_frameworks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TensorRTEngine, "missing", lambda *_: None)
    with pytest.raises(RequestError, match="does not accept tensorflow networks"):
        TensorRTEngine().compile(replace(small(), framework="tensorflow"), plan(Path()))


def test_the_double_takes_what_is_documented() -> None:
    """A double that takes other parameters than TensorRT would prove nothing."""
    for name, parameters in (DOCUMENTED | RTX_DOCUMENTED).items():
        kind, method = name.split(".")
        assert (
            list(inspect.signature(getattr(getattr(trt, kind), method)).parameters)[1:]
            == parameters
        ), name


@pytest.mark.parametrize(
    ("names", "documented", "extra"),
    [
        (("tensorrt",), DOCUMENTED, "tensorrt"),
        (RTX.modules, DOCUMENTED | RTX_DOCUMENTED, "tensorrt-rtx"),
    ],
    ids=["tensorrt", "tensorrt-rtx"],
)
def test_the_bindings_have_what_is_documented(
    names: tuple[str, ...], documented: dict[str, list[str]], extra: str
) -> None:
    """Where they are installed: the same names and parameters as the double's."""
    found = next(filter(find_spec, names), None)
    if found is None:
        pytest.skip(f"{names[0]} is not installed: podium-suite[{extra}]")
    real = pytest.importorskip(found, exc_type=ImportError)
    for name, parameters in documented.items():
        kind, method = name.split(".")
        told = str(getattr(getattr(real, kind), method).__doc__)
        assert all(f"{parameter}: " in told for parameter in parameters), name
    for kind in (
        trt.BuilderFlag,
        trt.DataType,
        trt.MemoryPoolType,
        trt.NetworkDefinitionCreationFlag,
        trt.ILogger.Severity,
    ):
        there = getattr(real, kind.__name__, None) or real.ILogger.Severity
        assert {member.name for member in kind} <= set(there.__members__), kind
    assert (
        int(real.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        == trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    )
    assert all(hasattr(getattr(real, kind), name) for kind, names in READ.items() for name in names)


def test_the_capabilities_of_rtx_are_its_library_s() -> None:
    """`podium doctor` lists them without importing it."""
    found = next(filter(find_spec, RTX.modules), None)
    if found is None:
        pytest.skip("tensorrt_rtx is not installed: podium-suite[tensorrt-rtx]")
    library = library_module.load_library(RTX)
    known = list(map(library_module.format_target, library_module.RTX_CAPABILITIES))
    assert library_module.list_build_targets(library) == known
    assert RTX.installed_version == library.version
