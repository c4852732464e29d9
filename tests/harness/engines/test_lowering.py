"""ONNX files in the number formats of a strongly typed engine, each run on the CPU and held against
its source.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engines.onnx import lowering, quantization
from suite.engine import RANGE, Calibration, Network, Plan
from suite.errors import MissingError, RequestError
from suite.terms import Precision

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

SHAPE = (3, 8, 8)
BLOCKS = 2 * lowering.WEIGHTS_PER_BLOCK


class Small(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A convolution, and a product of more than one block."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = torch.nn.Conv2d(3, BLOCKS, 3, padding=1), torch.nn.Linear(BLOCKS, 5)

    def forward(self, picture_NCHW: Any) -> Any:
        return self.head(self.conv(picture_NCHW).relu().mean((2, 3)))


def network() -> Network[Any]:
    return Network(
        name="small",
        module=Small(),
        framework="torch",
        inputs=(torch.zeros(1, *SHAPE),),
        input_names=("picture",),
        output_names=("logit",),
        dimensions=({0: "batch"},),
    )


def pictures(seed: int, count: int) -> Any:
    return torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(seed)).clamp(-2, 2)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from harness.engines.onnx.export import ensure_onnx_export

    return ensure_onnx_export(network(), tmp_path_factory.mktemp("engines"))


def plan(precision: Precision, source: Path) -> Plan[Any]:
    inputs = [(one.unsqueeze(0),) for one in pictures(1, 16)]
    names = tuple(f"train/{number}" for number in range(len(inputs)))
    samples = Calibration(
        inputs=inputs,
        list_name="embedded",
        listed=names,
        samples=names,
        sha256=names,
        touched=(),
        method="min-max",
    )
    return Plan(
        device="cpu",
        precision=precision,
        threads=1,
        max_batch=8,
        cache=source.parent.parent,
        calibration=samples,
    )


def types(path: Path) -> set[str]:
    """Name the types of a file's constants."""
    return {
        onnx.TensorProto.DataType.Name(tensor.data_type)
        for tensor in onnx.load(path).graph.initializer
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "share"),
    [("fp32", 1e-6), ("fp16", 2e-3), ("int8", 0.05), ("fp8", 0.1), ("int4", 0.2)],
)
def test_each_format_answers_near_its_source(source: Path, precision: str, share: float) -> None:
    """A file that a conversion broke would be blamed on the format, on a machine that is far
    away.
    """
    import onnxruntime

    path, facts = lowering.lower_onnx_to_precision(
        network(), source, plan(Precision(precision), source)
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    picture_NCHW = pictures(2, 6)
    (found_NK,) = session.run(["logit"], {"picture": picture_NCHW.numpy()})
    wanted_NK = Small()(picture_NCHW).detach()
    assert (torch.from_numpy(found_NK) - wanted_NK).abs().max() < share * wanted_NK.abs().max()
    assert precision.removeprefix("fp32") in str(facts["weights"])


@pytest.mark.slow
def test_bf16_answers_near_its_source(source: Path) -> None:
    """ONNX Runtime's CPU has no kernels for it; ONNX's own evaluator has."""
    from onnx.reference import ReferenceEvaluator

    path, _ = lowering.lower_onnx_to_precision(network(), source, plan(Precision.BF16, source))
    picture_NCHW = pictures(2, 1)
    (found_NK,) = ReferenceEvaluator(str(path)).run(["logit"], {"picture": picture_NCHW.numpy()})
    wanted_NK = Small()(picture_NCHW).detach()
    assert found_NK.dtype == "float32"
    assert (torch.from_numpy(found_NK) - wanted_NK).abs().max() < 0.02 * wanted_NK.abs().max()
    assert "BFLOAT16" in types(path) and "FLOAT16" not in types(path)


@pytest.mark.slow
def test_bf16_leaves_transposed_convolutions_in_fp32(tmp_path: Path) -> None:
    """Of Mask R-CNN's masks; TensorRT for RTX reads them in bf16 and cannot build them."""
    from onnx.reference import ReferenceEvaluator

    torch.manual_seed(0)
    doubled = torch.nn.ConvTranspose2d(3, 4, 2, stride=2)
    one = replace(network(), module=doubled, output_names=("picture_2",))
    from harness.engines.onnx.export import ensure_onnx_export

    path, _ = lowering.lower_onnx_to_precision(
        one, ensure_onnx_export(one, tmp_path), plan(Precision.BF16, tmp_path / "onnx/any")
    )
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    place = kinds.index("ConvTranspose")
    assert kinds[place - 1] == kinds[place + 1] == "Cast"
    picture_NCHW = pictures(2, 1)
    (found,) = ReferenceEvaluator(str(path)).run(None, {"picture": picture_NCHW.numpy()})
    wanted = doubled(picture_NCHW).detach()
    assert (torch.from_numpy(found) - wanted).abs().max() < 0.02 * wanted.abs().max()


@pytest.mark.slow
def test_int8_is_as_tensorrt_wants_it(source: Path) -> None:
    """Symmetric, Q and DQ on weights and in front of products, biases in floats, nothing behind
    them.
    """
    path, facts = lowering.lower_onnx_to_precision(network(), source, plan(Precision.INT8, source))
    model = onnx.load(path)
    zeros = {node.input[2] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert {values[name].dtype.name for name in zeros} == {"int8"} and not any(
        values[name].any() for name in zeros
    )
    assert "INT32" not in types(path)
    assert sum(node.op_type == "QuantizeLinear" for node in model.graph.node) == 4
    assert facts[f"{RANGE}picture"] == pytest.approx((-2 * 128 / 127, 2), rel=0.01)


@pytest.mark.slow
def test_fp8_holds_the_same_largest_values(source: Path) -> None:
    """The ranges that the measurements tell are those of the calibration."""
    path, facts = lowering.lower_onnx_to_precision(network(), source, plan(Precision.FP8, source))
    assert "FLOAT8E4M3FN" in types(path) and "INT8" not in types(path)
    assert facts[f"{RANGE}picture"] == pytest.approx((-2, 2), rel=0.01)


@pytest.mark.slow
def test_int4_is_for_weights_alone_and_tells_their_ranges(source: Path) -> None:
    path, facts = lowering.lower_onnx_to_precision(network(), source, plan(Precision.INT4, source))
    assert "INT4" in types(path)
    (widest,) = [value for name, value in facts.items() if name.startswith(RANGE)]
    assert widest == pytest.approx(
        (-1 / BLOCKS**0.5, 1 / BLOCKS**0.5), rel=0.02
    )  # how PyTorch draws a linear layer's weights


def test_a_network_that_int4_does_not_fit_is_refused() -> None:
    """Served in fp32 under the name of int4 it would be fast for no reason."""
    sides = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3])
        for name in ("picture", "logit")
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["picture"], ["logit"])], "bare", sides[:1], sides[1:]
    )
    bare = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", lowering.BLOCK_OPSET)]
    )
    with pytest.raises(
        MissingError,
        match=(
            "network small: int4 needs a matrix product with a constant matrix whose rows are a"
            " multiple of 128"
        ),
    ):
        lowering.pack_int4_weights("small", bare)


@pytest.mark.slow
def test_formats_that_need_samples_say_so(source: Path) -> None:
    with pytest.raises(RequestError, match="needs calibration samples"):
        lowering.lower_onnx_to_precision(
            network(), source, replace(plan(Precision.FP8, source), calibration=None)
        )


@pytest.mark.slow
def test_a_symmetric_file_is_another_than_onnx_runtime_s(source: Path) -> None:
    """Kept under one name, the first engine that came would decide for both."""
    samples = plan(Precision.INT8, source).calibration
    assert samples is not None
    assert quantization.compute_int8_key(source, samples) != quantization.compute_int8_key(
        source, samples, lowering.TENSORRT_INT8_FORM
    )
