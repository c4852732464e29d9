"""The ONNX Runtime engine: exports equal to their source, tensors bound without copies, a cache
that stays, refusals in a sentence.
"""

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import synchronize
from pathlib import Path
from typing import Any

import pytest

from harness.engines.onnx import engine as engine_module
from harness.engines.onnx import example_sizes, export, io_binding, lowering, quantization
from harness.engines.onnx.engine import OnnxRuntimeEngine
from suite.engine import Network, Plan, ShapeProfile
from suite.errors import MissingError, RequestError
from suite.process.installation import format_install_command
from suite.terms import Precision

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow  # most export, and loading PyTorch's exporter takes seconds

SIDE = 6


class Small(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Three outputs: one of the inputs' shape, one whose size only the run tells, one that nothing
    changes.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(SIDE, SIDE)

    def forward(self, rows_NF: Any) -> Any:
        return self.layer(rows_NF), torch.cat([rows_NF, rows_NF])


class Step(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A decoder step: writes one place of a cache, and tells the cache's sum."""

    def forward(self, value_N: Any, position: Any, cache_NS: Any) -> Any:
        next_NS = cache_NS.index_copy(1, position, value_N[:, None])
        return {"total": next_NS.sum(dim=1), "next_cache": next_NS}


def small(module: Any = None) -> Network[Any]:
    return Network(
        name="small",
        module=module or Small(),
        framework="torch",
        inputs=(torch.zeros(1, SIDE),),
        input_names=("rows",),
        output_names=("mapped", "twice"),
        dimensions=({0: "batch"},),
    )


def step() -> Network[Any]:
    return Network(
        name="step",
        module=Step(),
        framework="torch",
        inputs=(torch.zeros(1), torch.zeros(1, dtype=torch.int64), torch.zeros(1, SIDE)),
        input_names=("value", "position", "cache"),
        output_names=("total", "next_cache"),
        dimensions=({0: "batch"}, {}, {0: "batch"}),
        state={"next_cache": "cache"},
    )


def plan(cache: Path, **changes: Any) -> Plan[Any]:
    return replace(
        Plan(device="cpu", precision=Precision.FP32, threads=1, max_batch=8, cache=cache), **changes
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module")
def call(cache: Path) -> Callable[..., Any]:
    return OnnxRuntimeEngine().compile(small(), plan(cache)).open()


def test_every_batch_size_is_answered_as_the_source_answers(call: Callable[..., Any]) -> None:
    """An export with the example's batch size baked in answers batches of that size alone."""
    for size in (1, 3, 8, 2):
        rows_NF = torch.randn(size, SIDE)
        mapped, twice = call(rows_NF)
        wanted = Small()(rows_NF)
        torch.testing.assert_close(mapped, wanted[0].detach())
        torch.testing.assert_close(twice, wanted[1])


def test_inputs_of_any_memory_layout_are_read_right(call: Callable[..., Any]) -> None:
    """A pointer to a transposed tensor would be read in the wrong order."""
    rows_NF = torch.randn(SIDE, 4).T
    torch.testing.assert_close(call(rows_NF)[0], Small()(rows_NF).__getitem__(0).detach())


def test_results_stay_where_they_are_from_call_to_call(call: Callable[..., Any]) -> None:
    """A fresh buffer, or a copy, for every call costs more than a small network's own work."""
    first = call(torch.randn(4, SIDE))[0].data_ptr()
    assert {call(torch.randn(size, SIDE))[0].data_ptr() for size in (4, 2, 4)} == {first}


def test_a_cache_goes_round_without_being_overwritten_while_it_is_read(cache: Path) -> None:
    """One buffer for a cache that is both read and written loses what earlier steps put there."""
    executable = OnnxRuntimeEngine().compile(step(), plan(cache))
    mine, other = executable.open(), executable.open()
    cache_NS, seen = torch.zeros(2, SIDE), set()
    for place in range(SIDE):
        before = cache_NS.clone()
        total_N, cache_NS = mine(torch.tensor([1.0, 2.0]), torch.tensor([place]), cache_NS)
        other(torch.tensor([9.0, 9.0]), torch.tensor([place]), torch.zeros(2, SIDE))
        seen.add(cache_NS.data_ptr())
        before[:, place] = torch.tensor([1.0, 2.0])
        torch.testing.assert_close(cache_NS, before)
        torch.testing.assert_close(total_N, before.sum(dim=1))
    assert len(seen) == 2


def test_what_was_built_is_told(cache: Path) -> None:
    facts = (
        OnnxRuntimeEngine()
        .compile(small(), plan(cache, threads=2, options={"engine.graph_optimization": "basic"}))
        .describe()
    )
    assert facts["provider"] == "CPUExecutionProvider"
    assert (facts["threads"], facts["graph_optimization"], facts["exporter"]) == (
        2,
        "basic",
        "dynamo",
    )
    assert float(str(facts["difference"])) < export.EXPORT_TOLERANCE


def test_a_second_process_finds_the_export_and_other_weights_make_another(
    cache: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale file would serve the weights of an earlier checkpoint; a needless export takes most
    of a minute.
    """
    monkeypatch.setattr(export, "export_to_onnx", lambda *_: pytest.fail("exported again"))
    OnnxRuntimeEngine().compile(small(), plan(cache))
    other = Small()
    with torch.no_grad():
        other.layer.weight[0, 0] += 1
    assert export.compute_export_key(small(other)) != export.compute_export_key(small())


def test_an_export_leaves_no_lock_between_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LoadGen's process is ended at once: what it shared with others would be reported on the
    screen as lost.
    """
    monkeypatch.delattr(torch.hub.tqdm, "_lock", raising=False)  # an earlier export has set it
    made: list[object] = []
    monkeypatch.setattr(
        synchronize.SemLock, "__init__", lambda lock, *given, **more: made.append(lock)
    )
    export.ensure_onnx_export(small(), tmp_path)
    assert made == []


@dataclass(frozen=True)
class Choice:
    """What a module may hold."""

    factor: float = 1.0


class Varied(Small):
    """Computes with what no checkpoint has."""

    def __init__(
        self,
        *,
        buffer: float = 0.0,
        plain: float = 0.0,
        sizes: tuple[int, ...] = (),
        choice: Choice | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("table", torch.full((SIDE,), buffer), persistent=False)
        self.plain, self.sizes, self.choice = torch.full((SIDE,), plain), list(sizes), choice

    def forward(self, rows_NF: Any) -> Any:
        return (
            self.layer(rows_NF)
            + self.table
            + self.plain
            + len(self.sizes)
            + (self.choice.factor if self.choice else 0.0),
            rows_NF,
        )


def test_whatever_a_network_computes_with_is_in_the_name_of_its_file() -> None:
    """A table of positions that is no weight, a record of choices: two networks with one file, and
    the second is served as the first.
    """
    varied: list[dict[str, Any]] = [
        {},
        {"buffer": 1.0},
        {"plain": 1.0},
        {"sizes": (3,)},
        {"choice": Choice()},
        {"choice": Choice(2.0)},
    ]
    assert len({export.compute_export_key(small(Varied(**changes))) for changes in varied}) == len(
        varied
    )
    assert export.compute_export_key(small(Varied(choice=Choice()))) == export.compute_export_key(
        small(Varied(choice=Choice()))
    )


def test_code_beside_a_network_s_class_is_in_the_name_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that `forward` calls decides as much as `forward` itself."""
    monkeypatch.syspath_prepend(tmp_path)
    keys = set()
    for factor in (1, 22):
        (tmp_path / "podium_told.py").write_text(
            f"import torch\ndef scaled(x): return x * {factor}\nclass Net(torch.nn.Module):\n   "
            " def forward(self, x): return scaled(x), x\n"
        )
        linecache.clearcache()
        keys.add(export.compute_export_key(small(importlib.import_module("podium_told").Net())))
        sys.modules.pop("podium_told")
        importlib.invalidate_caches()
    assert len(keys) == 2


@pytest.mark.parametrize("size", [0, 40])
def test_a_damaged_file_is_named(size: int, tmp_path: Path) -> None:
    """It would be found damaged at every call, and nobody would know which file to remove."""
    (tmp_path / "onnx").mkdir()
    path = tmp_path / "onnx" / f"{export.compute_export_key(small())}.onnx"
    path.write_bytes(b"\x08\x07\x12" + bytes(range(37)) if size else b"")
    with pytest.raises(
        MissingError, match=r"\.onnx: not a complete ONNX file; remove it to export again"
    ):
        OnnxRuntimeEngine().compile(small(), plan(tmp_path))


def test_an_exporter_s_colours_are_not_part_of_the_sentence(tmp_path: Path) -> None:
    """Its messages are made for a terminal; ours go into JSON as well."""

    def export_by_paint(*_: object) -> None:
        raise ValueError("\x1b[96mno function\x1b[0m\n for this")

    with pytest.raises(
        MissingError,
        match=r"small cannot be exported to ONNX \(paint\): ValueError: no function for this$",
    ):
        export.try_exporter(small(), Small(), tmp_path / "x.onnx", export_by_paint)


def test_nothing_half_written_is_left_where_an_export_fails(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"small cannot be exported to ONNX \(dynamo\): "):
        OnnxRuntimeEngine().compile(small(Unexportable()), plan(tmp_path))
    assert [path.suffix for path in (tmp_path / "onnx").iterdir()] == [".lock"]


class Unexportable(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Asks Python about its values."""

    def forward(self, rows_NF: Any) -> Any:
        return open(str(rows_NF.sum().item())), rows_NF  # noqa: PTH123, SIM115


class Recurrent(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A layer whose length torch.export takes for a constant."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.LSTM(SIDE, 4, batch_first=True, bidirectional=True)

    def forward(self, words_NSF: Any) -> Any:
        return self.layer(words_NSF)[0]


def recurrent(*dynamic: str) -> Network[Any]:
    shapes = [(1, 2, SIDE), (2, 3, SIDE), (4, 5, SIDE)]
    return Network(
        name="recurrent",
        module=Recurrent(),
        framework="torch",
        inputs=(torch.zeros(2, 3, SIDE),),
        input_names=("words",),
        output_names=("memory",),
        dimensions=(dict(enumerate(dynamic)),),
        shapes=ShapeProfile(
            **{
                name: (shape,)
                for name, shape in zip(("minimum", "usual", "maximum"), shapes, strict=True)
            }
        ),
    )


def test_a_recurrent_layer_of_any_length_is_traced_first() -> None:
    """Torch.export would unroll it, step after step, for one length; where the length is fixed, the
    file would change without need.
    """
    first = [
        export.choose_exporters(network, network.module)[0]
        for network in (recurrent("batch", "source"), recurrent("batch"), small())
    ]
    assert first == [export.export_by_torchscript, export.export_by_dynamo, export.export_by_dynamo]


def test_a_size_that_an_exporter_takes_for_a_constant_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder for sentences of one length; the other exporter does better, and that is told."""
    network = recurrent("batch", "source")
    monkeypatch.setattr(
        export,
        "choose_exporters",
        lambda *_: (export.export_by_dynamo, export.export_by_torchscript),
    )
    executable = OnnxRuntimeEngine().compile(network, plan(tmp_path))
    assert executable.describe()["exporter"] in ("dynamo", "torchscript")
    run = executable.open()
    for shape in ((4, 5), (1, 2), (3, 4)):
        words_NSF = torch.randn(*shape, SIDE)
        torch.testing.assert_close(run(words_NSF)[0], Recurrent()(words_NSF).detach())


def test_the_second_look_keeps_what_holds_between_sizes_and_their_limits() -> None:
    """Rows of a beam are a multiple of the sentences: sizes that grow one by one make inputs that
    no caller gives.
    """
    profile = ShapeProfile(minimum=((1, SIDE),), usual=((1, SIDE),), maximum=((3, SIDE),))
    assert example_sizes.choose_larger_sizes(small(), {"batch": 3}) == [{"batch": 6}]
    assert example_sizes.choose_larger_sizes(replace(small(), shapes=profile), {"batch": 1}) == [
        {"batch": 2}
    ]
    assert example_sizes.choose_larger_sizes(replace(small(), shapes=profile), {"batch": 2}) == [
        {"batch": 3}
    ]
    assert example_sizes.choose_larger_sizes(replace(small(), shapes=profile), {"batch": 3}) == []


class Drifting(Small):
    """Answers differently each time."""

    def forward(self, rows_NF: Any) -> Any:
        self.offset = getattr(self, "offset", 0.0) + 0.1
        return self.layer(rows_NF) + self.offset, torch.cat([rows_NF, rows_NF])


def test_an_export_that_differs_from_its_source_is_refused(tmp_path: Path) -> None:
    """A network that the exporter misunderstood would be timed, and its accuracy blamed on the
    number format.
    """
    with pytest.raises(
        MissingError,
        match=r"mapped differs from its source by 0\.\d+ of its largest value, more than 0.001",
    ):
        OnnxRuntimeEngine().compile(small(Drifting()), plan(tmp_path))
    assert not list((tmp_path / "onnx").glob("*.onnx"))


def test_small_outputs_are_held_to_their_own_size() -> None:
    """Probabilities are small: a thousandth of 1 would be all of them."""
    with pytest.raises(
        MissingError, match=r"mapped differs from its source by 0\.5 of its largest value"
    ):
        export.compute_output_difference(
            small(), "mapped", torch.full((3,), 2e-3), torch.full((3,), 1e-3).numpy()
        )
    assert (
        export.compute_output_difference(
            small(), "mapped", torch.zeros(3), torch.full((3,), 1e-7).numpy()
        )
        < export.EXPORT_TOLERANCE
    )


def full(*_: object) -> Iterator[None]:
    raise RuntimeError("Failed to allocate memory for requested buffer of size 137438953472")


def test_a_full_memory_names_the_batch_and_the_largest_that_fitted(
    call: Callable[..., Any], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback of the allocator tells nobody which setting to change."""
    own = OnnxRuntimeEngine().compile(small(), plan(cache)).open()
    own(torch.zeros(3, SIDE))
    monkeypatch.setattr(onnxruntime.InferenceSession, "run_with_iobinding", full)
    with pytest.raises(
        MissingError,
        match=(
            "does not suffice for a batch of 8; the largest that fitted is 3: --set"
            " batching.max_batch=3"
        ),
    ):
        own(torch.zeros(8, SIDE))


def test_other_failures_stay_what_they_are(cache: Path, call: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match="(?i)invalid dimensions|shape"):
        call(torch.zeros(2, SIDE + 1))


@pytest.mark.parametrize(
    ("device", "precision", "words"),
    [
        ("cpu", Precision.BF16, "has no bf16 on cpu; it has fp32, int8"),
        ("cuda:0", Precision.TF32, "no CUDAExecutionProvider or TensorrtExecutionProvider"),
        ("cuda:0", Precision.FP32, "no CUDAExecutionProvider, which fp32"),
        ("cuda", Precision.INT8, "no TensorrtExecutionProvider"),
    ],
)
def test_what_a_machine_lacks_is_told(
    device: str, precision: Precision, words: str, cache: Path
) -> None:
    assert words in str(OnnxRuntimeEngine().missing(device, precision))
    with pytest.raises(MissingError, match="engine onnxruntime: "):
        OnnxRuntimeEngine().compile(small(), plan(cache, device=device, precision=precision))


def test_a_package_that_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        engine_module, "find_spec", lambda name: None if name == "onnxscript" else object()
    )
    assert (
        OnnxRuntimeEngine().missing("cpu", Precision.FP32)
        == f"onnxscript not installed: {format_install_command('run')}"
    )


def test_a_provider_that_does_not_go_with_the_device_is_refused(cache: Path) -> None:
    with pytest.raises(
        RequestError, match="engine.provider=cuda has no fp32 on cpu; available there: cpu"
    ):
        OnnxRuntimeEngine().compile(small(), plan(cache, options={"engine.provider": "cuda"}))


def test_a_provider_that_does_not_come_up_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime warns and takes the CPU: its figures would stand under the GPU's name."""
    monkeypatch.setattr(engine_module, "is_provider_installed", lambda _: True)
    with pytest.raises(MissingError, match="CUDAExecutionProvider does not start here"):
        OnnxRuntimeEngine().compile(small(), plan(cache, device="cuda"))


def test_tensorrt_s_tf32_is_not_told_as_fp32(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its builder rounds to TF32 unless somebody clears a flag, and the provider has no option for
    that.
    """
    monkeypatch.setattr(engine_module, "is_provider_installed", lambda _: True)
    with pytest.raises(
        RequestError, match="engine.provider=tensorrt has no fp32 on cuda; available there: cuda"
    ):
        engine_module.resolve_onnx_provider(
            plan(cache, device="cuda", options={"engine.provider": "tensorrt"})
        )


@pytest.mark.parametrize(("provider", "symmetric"), [("cpu", False), ("tensorrt", True)])
def test_tensorrt_gets_a_symmetric_file(
    provider: str, symmetric: bool, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses zero points that are not zero (Working with quantized types)."""
    asked: list[quantization.QuantisationForm] = []
    source = export.ensure_onnx_export(small(), cache)
    monkeypatch.setattr(
        quantization, "ensure_int8_onnx", lambda *given: asked.append(given[3]) or source
    )
    _, facts = engine_module.lower_onnx_for_provider(
        small(), source, plan(cache, precision=Precision.INT8), provider
    )
    assert asked == [
        lowering.TENSORRT_INT8_FORM if symmetric else quantization.choose_default_form()
    ]
    assert str(facts["activations"]).startswith("int8" if symmetric else "uint8")


def test_a_tensor_of_another_type_is_refused(call: Callable[..., Any]) -> None:
    """Bound by its address, its bytes would be read as they are: numbers, and no error."""
    with pytest.raises(
        MissingError, match="the network's rows is float32, but the input is float64"
    ):
        call(torch.ones(2, SIDE, dtype=torch.float64))


def test_the_caller_s_work_on_a_gpu_is_waited_for(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two streams that know nothing of each other: inputs would be read before they are written."""
    done: list[str] = []

    class Stream:
        def synchronize(self) -> None:
            done.append("waited")

    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: done.append(device) or Stream()
    )
    io_binding.wait_for_device_stream("cpu")
    io_binding.wait_for_device_stream("cuda:1")
    assert done == ["cuda:1", "waited"]
    own = OnnxRuntimeEngine().compile(small(), plan(cache)).open()
    run = onnxruntime.InferenceSession.run_with_iobinding
    monkeypatch.setattr(io_binding, "wait_for_device_stream", lambda device: done.append(device))
    monkeypatch.setattr(
        onnxruntime.InferenceSession,
        "run_with_iobinding",
        lambda *given: done.append("run") or run(*given),
    )
    own(torch.zeros(2, SIDE))
    assert done[2:] == ["cpu", "run"]


def test_networks_of_other_frameworks_are_refused(cache: Path) -> None:
    with pytest.raises(RequestError, match="does not accept tensorflow networks"):
        OnnxRuntimeEngine().compile(replace(small(), framework="tensorflow"), plan(cache))


def test_provider_options_follow_the_plan(cache: Path) -> None:
    """TF32 would be taken for fp32, and TensorRT would build its engine in every process anew."""
    gpu = plan(cache, device="cuda:1")
    assert engine_module.build_provider_options("cuda", gpu) == {"device_id": "1", "use_tf32": "0"}
    assert (
        engine_module.build_provider_options("cuda", replace(gpu, precision=Precision.TF32))[
            "use_tf32"
        ]
        == "1"
    )
    built = engine_module.build_provider_options("tensorrt", replace(gpu, precision=Precision.INT8))
    assert (
        built["trt_int8_enable"] == "1"
        and built["trt_engine_cache_enable"] == "1"
        and "trt_fp16_enable" not in built
    )
